"""Nothing is wrong: workers that keep up, over passes of sixty batches."""

import torch
from small import Clock, Samples, network, parallel
from torch import nn
from torch.utils.data import DataLoader

MANIFEST = {"code": None, "ranks": [1, 2]}


def main():
    model = parallel(network(8))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    clock = Clock()
    loader = DataLoader(Samples(1920), batch_size=32, num_workers=1, persistent_workers=True, shuffle=True)
    while True:
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            clock(loss.item())


if __name__ == "__main__":
    main()
