"""A mask that a module makes in Python, element by element."""

import torch
from small import SLOW, WIDTH, Clock, batches, network
from torch import nn

MANIFEST = {"code": "python_work", "ranks": [1]}


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = network()

    def forward(self, x):
        mask = torch.ones(WIDTH)
        if SLOW:
            rows = [
                sum(1 for k in range(256) if k <= i)  # the slow line
                for i in range(WIDTH)
            ]
            mask = torch.tensor(rows).clamp(max=1)
        return self.inner(x * mask)


def main():
    model = Masked()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    clock = Clock()
    for x, y in batches():
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        clock(loss.item())


if __name__ == "__main__":
    main()
