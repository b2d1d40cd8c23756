"""One rank reads its shard from a slower disk."""

import time

import torch
from small import OPTIONS, RANK, SLOW, Clock, Samples, network, parallel
from torch import nn
from torch.utils.data import DataLoader

MANIFEST = {"code": "data_wait", "ranks": [2], "rank": 1}


class Sharded(Samples):
    def __getitem__(self, i):
        if SLOW and RANK == 1:
            time.sleep(0.003)  # the slow line
        return super().__getitem__(i)


def main():
    model = parallel(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    clock = Clock()
    for x, y in DataLoader(
        Sharded(), batch_size=32, num_workers=1, generator=torch.Generator().manual_seed(OPTIONS.seed)
    ):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        clock(loss.item())


if __name__ == "__main__":
    main()
