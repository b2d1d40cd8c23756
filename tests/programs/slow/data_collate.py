"""A collate function that takes as long as two steps."""

import time

import torch
from small import SLOW, Clock, Samples, network
from torch import nn
from torch.utils.data import DataLoader, default_collate

MANIFEST = {"code": "data_wait", "ranks": [1]}


def collate(samples):
    if SLOW:
        time.sleep(0.12)  # the slow line
    return default_collate(samples)


def main():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    clock = Clock()
    for x, y in DataLoader(Samples(), batch_size=32, num_workers=2, collate_fn=collate):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        clock(loss.item())


if __name__ == "__main__":
    main()
