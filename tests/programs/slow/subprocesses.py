"""Asks nvidia-smi, or what stands for it, at every step."""

import subprocess

import torch
from small import SLOW, Clock, batches, network
from torch import nn

MANIFEST = {"code": "child_wait", "ranks": [1]}


def main():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    clock = Clock()
    for x, y in batches():
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if SLOW:
            subprocess.run(["sleep", "0.03"], check=True)  # the slow line
        clock(loss.item())


if __name__ == "__main__":
    main()
