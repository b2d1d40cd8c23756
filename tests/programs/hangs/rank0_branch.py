"""Rank 0 alone evaluates now and then, and the evaluation gathers from all ranks; the others are in the next step's backward."""

import torch
import torch.distributed as dist
from parts import Run, train_step

EXPECTED = {"code": ("collective_mismatch", "collective_not_issued"), "ranks": [0], "where": "evaluate", "doubt": True}


def evaluate(world):
    scores = [torch.zeros(8) for _ in range(world)]
    dist.all_gather(scores, torch.ones(8))  # HERE
    return torch.stack(scores).mean()


def main():
    run = Run(culprit=0)
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        train_step(model, optimizer, batch)
        if run.trouble(step):
            evaluate(run.world)


if __name__ == "__main__":
    main()
