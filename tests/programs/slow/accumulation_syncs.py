"""Four micro-batches a step, and gradients exchanged after each."""

import contextlib

import torch
from small import SLOW, WORLD, Clock, batches, network, parallel
from torch import nn

MANIFEST = {"code": "syncs_each_micro_batch", "ranks": [2]}


def main():
    model = parallel(network(4, 1024))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    clock = Clock()
    source = batches(16, 1024)
    while True:
        optimizer.zero_grad()
        for micro in range(4):
            x, y = next(source)
            quiet = not SLOW and WORLD > 1 and micro < 3
            with model.no_sync() if quiet else contextlib.nullcontext():
                loss = nn.functional.cross_entropy(model(x), y) / 4
                loss.backward()  # the slow line
        optimizer.step()
        clock(loss.item())


if __name__ == "__main__":
    main()
