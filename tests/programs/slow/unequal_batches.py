"""Sequences of any length, dealt out to the ranks as they come. Ranks share the CPUs of one machine, and would compute the faster the fewer
of them do: what takes its time here stands for a device that each has for itself.
"""

import random
import select

import torch
from small import OPTIONS, RANK, SLOW, WIDTH, Clock, network, parallel
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

MANIFEST = {"code": "unequal_batches", "ranks": [2], "line": None}


class Sequences(IterableDataset):
    def __iter__(self):
        lengths = random.Random(OPTIONS.seed * 100 + RANK)
        generator = torch.Generator().manual_seed(OPTIONS.seed)
        while True:
            n = lengths.randrange(8, 1000) if SLOW else 504
            yield torch.randn(n, WIDTH, generator=generator), torch.randint(10, (n,), generator=generator)


class Device(torch.autograd.Function):
    """50 us a token, forward and backward."""

    @staticmethod
    def forward(ctx, x):
        select.select([], [], [], len(x) * 5e-5)
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        select.select([], [], [], len(grad) * 5e-5)
        return grad


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.rest = nn.Linear(WIDTH, 64), network(1, 64)

    def forward(self, x):
        return self.rest(Device.apply(self.first(x)))


def main():
    model = parallel(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    clock = Clock()
    for x, y in DataLoader(Sequences(), batch_size=None):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        clock(loss.item())


if __name__ == "__main__":
    main()
