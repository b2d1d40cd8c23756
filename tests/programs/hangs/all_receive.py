"""A ring in which every rank first receives from its left and then sends to its right: nobody ever sends."""

import torch
import torch.distributed as dist
from parts import Run, train_step

EXPECTED = {
    "code": ("collective_order", "collective_not_issued", "collective_mismatch"),
    "ranks": "all",
    "where": "ring",
}


def ring(run):
    x = torch.ones(4)
    dist.recv(x, src=(run.rank - 1) % run.world)  # HERE
    dist.send(x, dst=(run.rank + 1) % run.world)


def main():
    run = Run()
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        train_step(model, optimizer, batch)
        if step == run.step:
            run.ready()
            ring(run)


if __name__ == "__main__":
    main()
