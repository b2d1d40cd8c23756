"""Contrastive training. One rank's batch comes with a second view of every sample, which runs through the model, too: a forward more than
on the other ranks, and before each one DDP sends the statistics of the batch norms around.
"""

import torch
from parts import WIDTH, Run
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

EXPECTED = {
    "code": ("collective_mismatch", "collective_not_issued", "collective_order"),
    "ranks": "culprit",
    "where": ("contrast", "main"),
    "doubt": True,
    "says": ("second is None",),
}


class Encoder(nn.Module):
    def __init__(self, depth=4):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU()) for _ in range(depth)
        )
        self.project = nn.Linear(WIDTH, 16)
        self.auxiliary = nn.Linear(WIDTH, 16)

    def forward(self, x, auxiliary=False):
        for block in self.blocks:
            x = x + block(x)
        return self.auxiliary(x) if auxiliary else self.project(x)


def contrast(model, first, second):
    a = nn.functional.normalize(model(first), dim=1)
    if second is None:
        return (1 - (a * a.roll(1, 0)).sum(1)).mean()
    b = nn.functional.normalize(model(second), dim=1)  # HERE
    return (1 - (a * b).sum(1)).mean()


def views(run):
    for step, (x, _) in enumerate(run.loader(batch_size=8)):
        yield (x, x + 0.1 * torch.randn_like(x)) if run.trouble(step) else (x, None)


def main():
    run = Run()
    model = DDP(Encoder(), find_unused_parameters=True, bucket_cap_mb=0.01)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    for first, second in views(run):
        loss = contrast(model, first, second)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


if __name__ == "__main__":
    main()
