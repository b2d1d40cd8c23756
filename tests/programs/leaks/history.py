"""A trainer's history has a list of dicts, each with tensors, for ever."""

from training import Training


class Trainer:
    def __init__(self, training):
        self.training = training
        self.history = {"batches": [], "steps": 0}

    def record(self, x, loss):
        self.history["steps"] += 1
        self.history["batches"].append({"x": x, "loss": loss.item()})  # leaks

    def fit(self):
        while self.training.goes_on:
            x, y = self.training.batch()
            loss = self.training.loss(x, y)
            self.training.step(loss)
            self.record(x, loss)


def main():
    trainer = Trainer(Training())
    trainer.fit()


main()
