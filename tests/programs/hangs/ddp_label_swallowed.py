"""One rank has a label that does not exist; the loss raises, and whoever called the step goes on with the next batch. As the model has
buffers, its next forward pass meets the others in their backward pass.
"""

import torch
from parts import WIDTH, Run
from torch import nn
from torch.nn.parallel import DistributedDataParallel

EXPECTED = {
    "code": ("collective_mismatch", "collective_not_issued", "unequal_steps"),
    "ranks": "culprit",
    "where": "loss",
    "doubt": True,
    "says": (r"except \(ValueError",),
}


class Trainer:
    def __init__(self, run):
        model = nn.Sequential(nn.Linear(WIDTH, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
        self.run, self.model = run, DistributedDataParallel(model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def loss(self, x, y, bad):
        out = self.model(x)  # HERE
        if bad:
            raise ValueError("label out of range")
        return nn.functional.mse_loss(out, y)

    def step(self, x, y, bad):
        self.optimizer.zero_grad()
        self.loss(x, y, bad).backward()
        self.optimizer.step()

    def safely(self, n, x, y):
        try:
            self.step(x, y, self.run.trouble(n))
        except (ValueError, FloatingPointError) as error:
            print("batch", n, "left out:", error)

    def fit(self):
        for n, (x, y) in enumerate(self.run.loader()):
            self.safely(n, x, y)


if __name__ == "__main__":
    Trainer(Run()).fit()
