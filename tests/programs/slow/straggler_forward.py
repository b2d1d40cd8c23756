"""A rank that computes its statistics in the forward pass, ten times."""

import torch
from small import RANK, SLOW, WIDTH, WORLD, Clock, batches, network, parallel
from torch import nn

MANIFEST = {"code": "straggler", "ranks": [2], "rank": -1, "part": "forward"}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.rest = nn.Linear(WIDTH, WIDTH), network(3)

    def forward(self, x):
        h = self.first(x)
        if SLOW and RANK == WORLD - 1:
            with torch.no_grad():
                for _ in range(60):
                    (h @ self.first.weight).std()  # the slow line
        return self.rest(h)


def main():
    model = parallel(Net())
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
