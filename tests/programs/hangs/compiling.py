"""Nothing is wrong: torch.compile is at work on all ranks, on one variant of the model after the other, before the first step."""

import torch
from parts import WIDTH, Run
from torch import nn

EXPECTED = {"code": None, "state": ("healthy", "slow", "progressing"), "also": ("cpu_phase",)}


def main():
    run = Run()
    run.ready(4.0)
    for depth in range(20, 100_000):
        torch._dynamo.reset()
        layers = [layer for _ in range(depth) for layer in (nn.Linear(WIDTH, WIDTH), nn.GELU())]
        torch.compile(nn.Sequential(*layers), backend="aot_eager")(torch.ones(1, WIDTH)).sum().backward()


if __name__ == "__main__":
    main()
