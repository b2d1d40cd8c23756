"""Gradients are accumulated over four micro-batches, counted by each rank for itself; one rank did not count a micro-batch that it found
empty. From then on it reduces one micro-batch later than the others, and at the epoch's end not at all.
"""

import contextlib
import itertools

import torch
import torch.distributed as dist
from parts import WIDTH, Run
from torch import nn
from torch.nn.parallel import DistributedDataParallel

EXPECTED = {
    "code": ("unequal_steps", "collective_mismatch", "collective_not_issued"),
    "ranks": "culprit",
    "where": "evaluate",
    "doubt": True,
    "says": ("micro_batch",),
}
EVERY = 4


class Accumulator:
    """Knows when to reduce."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.counted = 0

    @property
    def due(self):
        return (self.counted + 1) % EVERY == 0

    @contextlib.contextmanager
    def micro_batch(self, size):
        if self.due:
            yield
            self.optimizer.step()
            self.optimizer.zero_grad()
        else:
            with self.model.no_sync():
                yield
        self.counted += size > 0


def evaluate(model, world):
    with torch.no_grad():
        score = model.module(torch.ones(1, WIDTH)).mean()
    scores = [torch.empty_like(score) for _ in range(world)]
    dist.all_gather(scores, score)  # HERE
    return torch.stack(scores).mean()


def train_epoch(run, model, accumulator):
    for n, (x, y) in enumerate(itertools.islice(run.loader(), EVERY * (run.step + 2))):
        weights = torch.ones(len(x), 1)
        if n % EVERY == 1 and run.trouble(n // EVERY):
            weights.zero_()
        with accumulator.micro_batch(int(weights.sum())):
            ((model(x) - y).square() * weights).mean().backward()


def main():
    run = Run()
    model = nn.Sequential(nn.Linear(WIDTH, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    model = DistributedDataParallel(model, bucket_cap_mb=0.01)
    accumulator = Accumulator(model, torch.optim.Adam(model.parameters()))
    for _ in range(3):
        train_epoch(run, model, accumulator)
        evaluate(model, run.world)


if __name__ == "__main__":
    main()
