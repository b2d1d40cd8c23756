"""An exception in a metric is swallowed on one rank at one step: its next reduction answers the others', and so on from then on."""

import time

import torch
import torch.distributed as dist
from parts import Run, train_step

EXPECTED = {
    "code": "collective_mispaired",
    "state": ("progressing",),
    "ranks": "culprit",
    "where": ("reduced", "accuracy", "samples"),
}


class Metrics:
    """Three numbers a step, each averaged over the ranks by itself."""

    def __init__(self, run):
        self.run = run

    def reduced(self, value):
        dist.all_reduce(value)
        return value / self.run.world

    def loss(self, loss):
        return self.reduced(loss.reshape(1).clone())

    def accuracy(self, batch, spoilt):
        if spoilt:
            raise ZeroDivisionError("no target in this batch")
        return self.reduced(torch.tensor([0.5]))  # HERE

    def samples(self, batch):
        return self.reduced(torch.tensor([float(len(batch[0]))]))  # HERE


def main():
    run = Run()
    model, optimizer = run.model()
    metrics = Metrics(run)
    for step, batch in enumerate(run.loader()):
        loss = train_step(model.module, optimizer, batch)
        metrics.loss(loss)
        try:
            metrics.accuracy(batch, run.trouble(step))
        except ZeroDivisionError:
            pass
        metrics.samples(batch)
        time.sleep(0.03)


if __name__ == "__main__":
    main()
