"""Every rank tokenises its part, and leaves a mark; all count the marks. The part of one is empty, and it leaves none."""

import os
import time

import torch.distributed as dist
from parts import Run, train_step

EXPECTED = {"code": "python_wait", "ranks": "culprit", "where": ("all_there",), "worlds": (3, 4, 6)}


def tokenise(folder, rank, lines):
    if not lines:
        return
    with open(os.path.join(folder, f"tokens-{rank}.ok"), "w") as mark:
        mark.write(" ".join(lines))


def all_there(folder, world):
    while len(os.listdir(folder)) < world:
        time.sleep(0.1)  # HERE


def main():
    run = Run()
    model, optimizer = run.model()
    shared = [None]
    with run.folder() as folder:
        shared[0] = folder
        dist.broadcast_object_list(shared)
        for step, batch in enumerate(run.loader()):
            train_step(model, optimizer, batch)
            if step == run.step:
                tokenise(shared[0], run.rank, [] if run.trouble(step) else ["one", "two"])
                all_there(shared[0], run.world)
                dist.barrier()


if __name__ == "__main__":
    main()
