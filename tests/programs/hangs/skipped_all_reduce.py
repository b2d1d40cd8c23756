"""One rank's loss is not finite, so it leaves its logging out, with the all_reduce in it; it goes on to the next call of all ranks."""

import torch
import torch.distributed as dist
from parts import Run, train_step

EXPECTED = {
    "code": ("collective_not_issued", "collective_mismatch"),
    "ranks": "culprit",
    "where": "main",
    "doubt": True,
}


def main():
    run = Run()
    model, optimizer = run.model()
    for step, (x, y) in enumerate(run.loader()):
        if run.trouble(step):
            y[0] = torch.inf
        loss = train_step(model, optimizer, (x, y))
        if loss.isfinite():
            dist.all_reduce(loss)  # HERE
        dist.barrier()  # HERE


if __name__ == "__main__":
    main()
