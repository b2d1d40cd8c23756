"""Each sample makes its alphabet anew, in one call that keeps the GIL, and then waits for the file that it is in."""

import time

import torch
from small import SLOW, Clock, Samples, network
from torch import nn
from torch.utils.data import DataLoader

MANIFEST = {"code": "data_wait", "ranks": [1]}
KNOWN = "the quick brown fox jumps over the lazy dog " * 10_000


class Texts(Samples):
    def __getitem__(self, i):
        if SLOW:
            sorted(set(KNOWN))  # the slow line
        time.sleep(0.0003)
        return super().__getitem__(i)


def main():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    clock = Clock()
    for x, y in DataLoader(Texts(), batch_size=32):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        clock(loss.item())


if __name__ == "__main__":
    main()
