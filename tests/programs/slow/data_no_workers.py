"""The training thread decodes its samples itself."""

import zlib

import torch
from small import SLOW, Clock, Samples, network
from torch import nn
from torch.utils.data import DataLoader

MANIFEST = {"code": "data_wait", "ranks": [1]}
PACKED = zlib.compress(bytes(range(256)) * 8000, 9)


class Packed(Samples):
    def __getitem__(self, i):
        if SLOW:
            zlib.decompress(PACKED)  # the slow line
        return super().__getitem__(i)


def main():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    clock = Clock()
    for x, y in DataLoader(Packed(), batch_size=32):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        clock(loss.item())


if __name__ == "__main__":
    main()
