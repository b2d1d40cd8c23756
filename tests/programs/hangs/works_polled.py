"""Every rank starts a reduction for each kind of count, and asks fifty times a second whether all are through. One rank has counted one
kind alone, starts only that, and is at the end of the step.
"""

import time

import torch
import torch.distributed as dist
from parts import Run, train_step

EXPECTED = {
    "code": ("collective_mismatch", "collective_not_issued"),
    "ranks": "culprit",
    "where": "main",
    "says": r"`len\(works\) < 2`",
    "doubt": True,
}


def reduced(counts):
    works = [dist.all_reduce(count, async_op=True) for count in counts]
    if len(works) < 2:
        works[0].wait()
        return counts
    while True:
        if all(work.is_completed() for work in works):
            return counts
        time.sleep(0.02)


def main():
    run = Run()
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        train_step(model, optimizer, batch)
        few = run.trouble(step)
        reduced([torch.ones(3)] if few else [torch.ones(3), torch.ones(3)])
        dist.barrier()  # HERE


if __name__ == "__main__":
    main()
