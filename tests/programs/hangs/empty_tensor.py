"""The ranks count their hard examples; one has none, so that its tensor is empty and of another dtype, and gloo skips its call."""

import torch
import torch.distributed as dist
from parts import Run
from torch import nn

EXPECTED = {"code": "collective_shape_mismatch", "ranks": "culprit", "where": ("sum_of_hard", "main"), "doubt": True}


def sum_of_hard(counts):
    total = torch.tensor(counts)
    dist.all_reduce(total)  # HERE
    return total


def main():
    run = Run()
    model, optimizer = run.model()
    for step, (x, y) in enumerate(run.loader()):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()  # HERE
        optimizer.step()
        sum_of_hard([] if run.trouble(step) else [1, 2])


if __name__ == "__main__":
    main()
