"""One rank is killed between two synchronisations; the others wait for it in the making of a new process group."""

import os
import signal

import torch.distributed as dist
from parts import Run, train_step

EXPECTED = {
    "code": "rank_ended",
    "ranks": "culprit",
    "where": None,
    "launcher": "patient",
    "state": ("stuck", "failed"),
}


def main():
    run = Run(first_culprit=1)  # rank 0 keeps the store
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        if run.trouble(step):
            os.kill(os.getpid(), signal.SIGKILL)
        if step == run.step:
            dist.new_group()
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    main()
