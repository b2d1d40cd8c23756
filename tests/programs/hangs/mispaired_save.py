"""One rank alone reduces a number when it saves: the others' next call answers it, and from then on it is one call behind."""

import time

import torch
import torch.distributed as dist
from parts import Run, train_step

EXPECTED = {
    "code": "collective_mispaired",
    "state": ("progressing",),
    "ranks": "culprit",
    "where": ("Saver.save", "save", "HERE"),
}


class Saver:
    """Writes down how large the parameters are, here instead of a file."""

    def __init__(self, run):
        self.run = run

    def save(self, step, model):
        total = sum(p.detach().abs().sum() for p in model.parameters()).reshape(1)
        dist.all_reduce(total)  # HERE
        return step, total


def mean(value, world):
    value = value.clone()
    dist.all_reduce(value)
    return value / world


def main():
    run = Run()
    model, optimizer = run.model()
    saver = Saver(run)
    for step, batch in enumerate(run.loader()):
        loss = train_step(model.module, optimizer, batch)
        mean(loss.detach().reshape(1), run.world)
        if run.trouble(step):
            saver.save(step, model)
        seen = torch.tensor([float(len(batch))])
        dist.all_reduce(seen)
        time.sleep(0.03)


if __name__ == "__main__":
    main()
