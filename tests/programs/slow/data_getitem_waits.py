"""Each sample is fetched from a store that takes 4 ms to answer; two workers are too few."""

import time

import torch
from small import SLOW, Clock, Samples, network
from torch import nn
from torch.utils.data import DataLoader

MANIFEST = {"code": "data_wait", "ranks": [1, 2]}


class Stored(Samples):
    def __getitem__(self, i):
        if SLOW:
            time.sleep(0.004)  # the slow line
        return super().__getitem__(i)


def main():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    clock = Clock()
    for x, y in DataLoader(Stored(), batch_size=32, num_workers=2):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        clock(loss.item())


if __name__ == "__main__":
    main()
