"""Two process groups of all ranks; one rank uses them in the other order, and each waits for the rest in a group of its own."""

import torch
import torch.distributed as dist
from parts import Run, train_step

EXPECTED = {"code": "collective_order", "ranks": "culprit", "where": "sync", "doubt": True}


def sync(groups):
    for group in groups:
        dist.all_reduce(torch.ones(4), group=group)  # HERE


def main():
    run = Run()
    model, optimizer = run.model()
    groups = [dist.new_group(), dist.new_group()]
    for step, batch in enumerate(run.loader()):
        train_step(model, optimizer, batch)
        sync(reversed(groups) if run.trouble(step) else groups)


if __name__ == "__main__":
    main()
