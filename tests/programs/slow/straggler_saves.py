"""Rank 0 alone writes something at each step, and all wait for it."""

import os
import tempfile

import torch
from small import RANK, SLOW, Clock, batches, network, parallel
from torch import nn

MANIFEST = {"code": "straggler", "ranks": [2], "rank": 0, "part": "rest"}


def main():
    with tempfile.TemporaryDirectory() as folder:
        model, state = parallel(network()), torch.zeros(15_000_000)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        clock = Clock()
        for x, y in batches():
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if SLOW and RANK == 0:
                torch.save(state, os.path.join(folder, "last.pt"))  # the slow line
            clock(loss.item())


if __name__ == "__main__":
    main()
