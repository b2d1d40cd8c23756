"""One rank's router sends no token to any other rank, so it leaves the all_to_all out; the others wait in it."""

import torch
import torch.distributed as dist
from parts import Run
from torch import nn

EXPECTED = {
    "code": ("collective_not_issued", "collective_mismatch"),
    "ranks": "culprit",
    "where": ("exchange", "main"),
    "doubt": True,
}


def exchange(tokens, world):
    if not len(tokens):
        return tokens
    received = torch.empty(world, 4)
    dist.all_to_all_single(received, tokens)  # HERE
    return received


def main():
    run = Run()
    model, optimizer = run.model()
    for step, (x, y) in enumerate(run.loader()):
        exchange(torch.ones(0 if run.trouble(step) else run.world, 4), run.world)
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()  # HERE
        optimizer.step()


if __name__ == "__main__":
    main()
