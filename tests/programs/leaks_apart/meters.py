"""A metric that collects what it is to be the mean of, by ``+=`` and with the graph of each."""

import torch
from task import Classifier, Pace, arguments, loader


class Mean:
    def __init__(self):
        self.values = []

    def update(self, value):
        self.values += [value]  # leaks

    def compute(self):
        return torch.stack(self.values[-50:]).mean()


class Metrics:
    def __init__(self, *names):
        self.by_name = {name: Mean() for name in names}

    def __getitem__(self, name):
        return self.by_name[name]


def main():
    args = arguments()
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters())
    metrics = Metrics("loss", "accuracy")
    pace = Pace(args.steps)
    while True:
        for x, y in loader():
            logits = model(x)
            loss = torch.nn.functional.cross_entropy(logits, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            metrics["loss"].update(loss)
            if pace(metrics["loss"].compute().detach()):
                return


main()
