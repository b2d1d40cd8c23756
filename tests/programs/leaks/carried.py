"""A moving average that is carried from step to step with its graph, whose buffers backward was told to retain."""

from training import Training


class Meter:
    def __init__(self):
        self.smooth = None

    def update(self, loss):
        if self.smooth is None:
            self.smooth = loss
        self.smooth = 0.9 * self.smooth + 0.1 * loss  # leaks


def main():
    training = Training()
    meter = Meter()
    while training.goes_on:
        x, y = training.batch()
        loss = training.loss(x, y)
        meter.update(loss)
        training.step(loss, retain_graph=True)


main()
