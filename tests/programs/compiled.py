"""A compiled model in steady state: ``compiled.py BACKEND`` prints ``ready`` once nothing is left to be compiled, and steps for ever.

``compiled.py BACKEND again`` compiles one model after the other, and prints ``ready`` at the first.
"""

import sys

import torch
from torch import nn


def train_step(model, optimizer):
    loss = model(torch.randn(64, 256)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def make(backend, depth=4):
    layers = [layer for _ in range(depth) for layer in (nn.Linear(256, 256), nn.GELU())]
    model = nn.Sequential(*layers, nn.Linear(256, 1))
    return torch.compile(model, backend=backend), torch.optim.AdamW(model.parameters(), lr=1e-4)


def compile_again(backend):
    print("ready", flush=True)
    for depth in range(20, 10**6):
        torch._dynamo.reset()
        model, _ = make(backend, depth)
        model(torch.ones(1, 256)).sum().backward()


def main():
    torch.set_num_threads(1)
    if sys.argv[2:] == ["again"]:
        compile_again(sys.argv[1])
    compiled, optimizer = make(sys.argv[1])
    train_step(compiled, optimizer)
    train_step(compiled, optimizer)
    print("ready", flush=True)
    while True:
        train_step(compiled, optimizer)


if __name__ == "__main__":
    main()
