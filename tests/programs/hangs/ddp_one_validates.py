"""One rank alone validates, through the DDP wrapper: every forward sends the batch norms' statistics around, and the others are in
backward.
"""

import itertools

import torch
from parts import WIDTH, Run
from torch import nn
from torch.nn.parallel import DistributedDataParallel

EXPECTED = {
    "code": ("collective_mismatch", "collective_not_issued", "collective_order"),
    "ranks": "culprit",
    "where": "validate",
    "doubt": True,
    "says": ("buffers",),
}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(1, 8, 5, padding=2), nn.BatchNorm1d(8), nn.ReLU())
        self.stage = nn.Sequential(nn.Conv1d(8, 16, 5, padding=2), nn.BatchNorm1d(16), nn.ReLU())
        self.out = nn.Linear(16 * WIDTH, 1)

    def forward(self, x):
        return self.out(self.stage(self.stem(x.unsqueeze(1))).flatten(1))


class Experiment:
    def __init__(self, run):
        self.run = run
        self.net = DistributedDataParallel(Net(), bucket_cap_mb=0.002)
        self.optimizer = torch.optim.SGD(self.net.parameters(), 1e-3)
        self.held_out = list(itertools.islice(run.loader(batch_size=16), 6))
        self.history = []

    def validate(self):
        total = 0.0
        for x, y in self.held_out:
            total += nn.functional.mse_loss(self.net(x), y).item()  # HERE
        return total / len(self.held_out)

    def run_epoch(self):
        for step, (x, y) in enumerate(self.run.loader()):
            loss = nn.functional.mse_loss(self.net(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if self.run.trouble(step):
                self.history.append((step, self.validate()))


if __name__ == "__main__":
    Experiment(Run()).run_epoch()
