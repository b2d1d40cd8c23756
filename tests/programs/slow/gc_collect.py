"""Someone wanted to save memory."""

import gc

import torch
from small import SLOW, Clock, batches, network
from torch import nn

MANIFEST = {"code": "full_collections", "ranks": [1]}


def main():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    clock = Clock()
    for x, y in batches():
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if SLOW:
            gc.collect()  # the slow line
        clock(loss.item())


if __name__ == "__main__":
    main()
