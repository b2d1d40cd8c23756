"""What the programs of this folder share: a little training, its loss of each step printed as exact hex, ``ready`` after some steps.

--seed N; --steps N stops after N steps (0: for ever). A line with ``# leaks`` is the one that makes the program leak.
"""

import argparse
import time

import torch
from torch import nn

READY = 12
STEP_S = 0.004


class Training:
    """``batch()``, ``step(loss)``; ``model`` and ``optimizer``."""

    def __init__(self, width=96):
        p = argparse.ArgumentParser()
        p.add_argument("--seed", type=int, default=0)
        p.add_argument("--steps", type=int, default=0)
        args = p.parse_args()
        torch.manual_seed(args.seed)
        torch.set_num_threads(1)
        self.last = args.steps
        self.count = 0
        self.width = width + 8 * (args.seed % 4)
        self.model = nn.Sequential(
            nn.Linear(32, self.width), nn.ReLU(), nn.Linear(self.width, self.width), nn.ReLU(), nn.Linear(self.width, 1)
        )
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    @property
    def goes_on(self):
        return self.last == 0 or self.count < self.last

    def batch(self, size=32):
        x = torch.randn(size, 32)
        return x, x.square().sum(1, keepdim=True)

    def loss(self, x, y):
        return nn.functional.mse_loss(self.model(x), y)

    def step(self, loss, **how):
        self.optimizer.zero_grad()
        loss.backward(**how)
        self.optimizer.step()
        self.count += 1
        print(f"{self.count} {loss.item().hex()}", flush=True)
        if self.count == READY:
            print("ready", flush=True)
        time.sleep(STEP_S)
