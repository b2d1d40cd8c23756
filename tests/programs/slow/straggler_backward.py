"""One rank is slower in backward; by the clock all are (traceml#252)."""

import time

import torch
from small import RANK, SLOW, WIDTH, Clock, batches, network, parallel
from torch import nn

MANIFEST = {"code": "straggler", "ranks": [2, 4], "rank": 1, "part": "backward"}


class Through(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        if SLOW and RANK == 1:
            time.sleep(0.2)  # the slow line
        return grad


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.rest = nn.Linear(WIDTH, WIDTH), network(4)

    def forward(self, x):
        return self.rest(Through.apply(self.first(x)))


def main():
    model = parallel(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    clock = Clock()
    for x, y in batches():
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        clock(loss.item())


if __name__ == "__main__":
    main()
