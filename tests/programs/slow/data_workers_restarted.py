"""Passes of six batches, and workers that are started anew for each."""

import torch
from small import SLOW, Clock, Samples, network
from torch import nn
from torch.utils.data import DataLoader

MANIFEST = {"code": "workers_restarted", "ranks": [1]}


def main():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    clock = Clock()
    loader = DataLoader(Samples(192), batch_size=32, num_workers=2, persistent_workers=not SLOW)
    while True:
        for x, y in loader:  # the slow line
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            clock(loss.item())


if __name__ == "__main__":
    main()
