"""A compiled model, and a number that is another one at each step."""

import itertools

import torch
from small import SLOW, Clock, batches, network
from torch import nn

MANIFEST = {"code": "recompiling", "ranks": [1]}


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = network()

    def forward(self, x, scale):
        return self.inner(x) * len(scale)


def main():
    torch._dynamo.config.recompile_limit = 100_000
    torch._dynamo.config.accumulated_recompile_limit = 100_000
    inner = Scaled()
    model = torch.compile(inner, backend="eager", dynamic=False)
    optimizer = torch.optim.SGD(inner.parameters(), lr=1e-3)
    clock = Clock()
    for (x, y), n in zip(batches(), itertools.count(1)):
        loss = nn.functional.cross_entropy(model(x, "x" * (n if SLOW else 1)), y)  # the slow line
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        clock(loss.item())


if __name__ == "__main__":
    main()
