"""A training to look at: blocks with names as in a transformer, two param groups, a schedule. Prints ``ready``, then ``STEP moved HEX``.

HEX is by how much this step moved a parameter whose gradient is always one: the learning rate that was really used on group 1. --nan FILE:
once FILE is there, blocks.2.gate takes the logarithm of a negative number. --hostile: parameters whose names are markup. --blocks N;
--sleep S between steps.
"""

import argparse
import os
import time

import torch
from torch import nn

HOSTILE = "<img src=x onerror=alert(1)>"


class Gate(nn.Module):
    """Weighs its input by the logarithm of a number that is one more than none, until `level` is negative."""

    def __init__(self):
        super().__init__()
        self.level = 1.0

    def forward(self, x):
        return x * (1 + torch.log(torch.full_like(x, self.level)))


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        weights = torch.softmax(self.query(x) @ self.key(x).T / x.shape[-1] ** 0.5, dim=-1)
        return x + weights @ self.value(x)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention = Attention(width)
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
        self.gate = Gate()

    def forward(self, x):
        x = self.norm(self.attention(x))
        return self.gate(x + self.mlp(x))


class Model(nn.Module):
    def __init__(self, blocks, hostile):
        super().__init__()
        self.embed = nn.Linear(8, 24)
        self.blocks = nn.ModuleList(Block(24) for _ in range(blocks))
        self.head = nn.Linear(24, 1)
        self.pace = nn.Parameter(torch.zeros((), dtype=torch.float64))
        if hostile:
            self.register_parameter(HOSTILE, nn.Parameter(torch.zeros(3)))
            self.head.register_parameter("<script>alert(2)</script>\n\x1b[31m", nn.Parameter(torch.zeros(2)))

    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        extra = sum(p.sum() for name, p in self.named_parameters() if "<" in name)
        return self.head(x) + extra


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--nan", default="")
    p.add_argument("--hostile", action="store_true")
    p.add_argument("--blocks", type=int, default=4)
    p.add_argument("--sleep", type=float, default=0.02)
    args = p.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Model(args.blocks, args.hostile)
    weights = [parameter for name, parameter in model.named_parameters() if name != "pace"]
    optimizer = torch.optim.SGD([{"params": weights, "lr": 3e-3}, {"params": [model.pace], "lr": 1e-2}])
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=1_000_000)
    step = 0
    while True:
        if args.nan and os.path.exists(args.nan) and len(model.blocks) > 2:
            model.blocks[2].gate.level = -1.0
        x = torch.randn(16, 8)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean() + model.pace.sum()
        optimizer.zero_grad()
        loss.backward()
        before = model.pace.item()
        optimizer.step()
        scheduler.step()
        step += 1
        print(f"{step} moved {(before - model.pace.item()).hex()}", flush=True)
        if step == 3:
            print("ready", flush=True)
        time.sleep(args.sleep)


if __name__ == "__main__":
    main()
