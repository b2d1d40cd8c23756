"""One rank's memory does not suffice for one backward; the loop skips the batch, as it was told to do with any RuntimeError. DDP is in the
middle of a reduction then, refuses every later forward, and those errors are swallowed, too: that rank is at the end of its epoch soon.
"""

import itertools
import logging

import torch
import torch.distributed as dist
from parts import WIDTH, Run
from torch import nn
from torch.nn.parallel import DistributedDataParallel

EXPECTED = {
    "code": ("unequal_steps", "collective_mismatch", "collective_not_issued"),
    "ranks": "culprit",
    "where": "epoch_end",
    "doubt": True,
    "says": ("except RuntimeError",),
}
log = logging.getLogger("fit")


class Pool:
    """The memory for what is computed again in backward."""

    def __init__(self):
        self.free = 1 << 20

    def take(self, amount):
        if amount > self.free:
            raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {amount / 2**20:.2f} MiB.")
        return torch.empty(amount)


class Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, pool):
        ctx.save_for_backward(x)
        ctx.pool = pool
        return torch.tanh(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        room = ctx.pool.take(x.numel()).view_as(x)
        torch.tanh(x, out=room)
        return grad * (1 - room * room), None


class Frugal(nn.Module):
    def __init__(self, pool):
        super().__init__()
        self.pool = pool
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(6))
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, x):
        for layer in self.layers:
            x = Recomputed.apply(layer(x), self.pool)
        return self.head(x)


class Loop:
    def __init__(self, run, pool):
        self.run, self.pool = run, pool
        self.model = DistributedDataParallel(Frugal(pool), bucket_cap_mb=0.005)
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.skipped = []

    def step(self, x, y):
        nn.functional.mse_loss(self.model(x), y).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def epoch(self, batches):
        for n, (x, y) in enumerate(batches):
            if self.run.trouble(n):
                self.pool.free = 16
            try:
                self.step(x, y)
            except RuntimeError as error:
                self.skipped.append(f"batch {n}: {error}"[:200])
                self.optimizer.zero_grad()
                continue
        self.epoch_end()

    def epoch_end(self):
        dist.barrier()  # HERE
        log.info("%d batches skipped", len(self.skipped))


def main():
    run = Run()
    loop = Loop(run, Pool())
    for _ in range(2):
        loop.epoch(itertools.islice(run.loader(), 40))


if __name__ == "__main__":
    main()
