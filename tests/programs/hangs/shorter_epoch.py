"""One rank's share of the data is shorter: it is validating while the others are still in the epoch, a loop in a function of its own."""

import itertools

import torch
import torch.distributed as dist
from parts import Run, train_step

EXPECTED = {"code": "unequal_steps", "ranks": "culprit", "where": "validate", "doubt": True}


def train_epoch(run, model, optimizer, batches):
    for step, batch in enumerate(itertools.islice(run.loader(), batches)):
        run.trouble(step)
        train_step(model, optimizer, batch)


def validate(world):
    scores = [torch.zeros(4) for _ in range(world)]
    dist.all_gather(scores, torch.ones(4))  # HERE
    return torch.stack(scores).mean()


def main():
    run = Run()
    model, optimizer = run.model()
    for _ in range(2):
        train_epoch(run, model, optimizer, run.step if run.is_culprit else run.step + 1)
        validate(run.world)


if __name__ == "__main__":
    main()
