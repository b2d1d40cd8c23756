"""One rank is killed; the others have a handler for SIGTERM, which Python cannot run while they wait, so torchrun gives them 30 seconds."""

import os
import signal

import torch.distributed as dist
from parts import Run, say, train_step

EXPECTED = {"code": "rank_ended", "ranks": "culprit", "where": None, "state": ("stuck", "failed")}


def save_soon(signum, frame):
    say("preempted: saving after this step")


def main():
    run = Run(first_culprit=1)
    signal.signal(signal.SIGTERM, save_soon)
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        if run.trouble(step):
            os.kill(os.getpid(), signal.SIGKILL)
        if step == run.step:
            dist.new_group()
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    main()
