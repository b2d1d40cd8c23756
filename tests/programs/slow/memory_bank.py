"""Every step is compared with all that came before: a bank that nobody bounds, in the model itself."""

import torch
from small import SLOW, WIDTH, Clock, batches, network
from torch import nn

MANIFEST = {"code": "slower_than_before", "ranks": [1], "line": None, "past": 400}


class Bank(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.held = network(4), []

    def forward(self, x):
        self.held = [*self.held, x.detach()][None if SLOW else -16 :]
        near = x @ torch.cat(self.held).T
        return self.inner(x + near.mean(1, keepdim=True) * 1e-3)


def main():
    model = Bank()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    clock = Clock()
    for x, y in batches(32, WIDTH):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        clock(loss.item())


if __name__ == "__main__":
    main()
