"""Left over from a test of the rate limit."""

import time

import torch
from small import SLOW, Clock, batches, network, parallel
from torch import nn

MANIFEST = {"code": "sleeps", "ranks": [1, 2]}


def main():
    model = parallel(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    clock = Clock()
    for x, y in batches():
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if SLOW:
            time.sleep(0.02)  # the slow line
        clock(loss.item())


if __name__ == "__main__":
    main()
