"""Nothing is wrong: a model with a loop over time in its forward pass, which is how such a model computes."""

import torch
from small import WIDTH, Clock, batches, network
from torch import nn

MANIFEST = {"code": None, "ranks": [1]}


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.GRUCell(WIDTH, WIDTH), network(2)

    def forward(self, x):
        h = torch.zeros_like(x)
        for _ in range(6):
            h = self.cell(x, h)
        return self.out(h)


def main():
    model = Recurrent()
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
