"""DDP on one rank skips a layer once; its next forward raises; the others wait."""

import torch
from parts import Run
from torch import nn
from torch.nn.parallel import DistributedDataParallel

EXPECTED = {
    "code": "rank_ended",
    "ranks": "culprit",
    "where": "main",
    "says": ["took no part in computing"],
    "state": ("stuck", "failed"),
}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x, skip):
        return self.a(x) if skip else self.b(self.a(x))


def main():
    run = Run(first_culprit=1)
    model = DistributedDataParallel(Net())
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(1000):
        run.trouble(step)
        optimizer.zero_grad()
        skip = run.is_culprit and step >= run.step
        model(torch.randn(4, 8), skip).sum().backward()  # HERE
        optimizer.step()


if __name__ == "__main__":
    main()
