"""Millions of small objects stay, and many more come at each step: Python looks through all of them again and again."""

import gc

import torch
from small import SLOW, Clock, batches, network, parallel
from torch import nn

MANIFEST = {"code": "gc_pauses", "ranks": [1, 2], "line": None}


def main():
    kept = [[n] for n in range(400_000)]
    if not SLOW:
        gc.disable()
    model = parallel(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    clock = Clock()
    replay = []
    for x, y in batches():
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        replay = [*replay[-100_000:], *([n] for n in range(50_000))]
        clock(loss.item())
    del kept


if __name__ == "__main__":
    main()
