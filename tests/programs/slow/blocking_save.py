"""A checkpoint after every step."""

import os
import tempfile

import torch
from small import SLOW, Clock, batches, network
from torch import nn

MANIFEST = {"code": "blocking_save", "ranks": [1]}


def main():
    with tempfile.TemporaryDirectory() as folder:
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        clock = Clock()
        for x, y in batches():
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if SLOW:
                torch.save(model.state_dict(), os.path.join(folder, "last.pt"))  # the slow line
            clock(loss.item())


if __name__ == "__main__":
    main()
