"""Rank 0 copies its checkpoint away with a program that never ends; the others wait at the barrier."""

import subprocess

import torch.distributed as dist
from parts import Run, train_step

EXPECTED = {"code": "python_wait", "ranks": [0], "where": "upload"}


def upload():
    subprocess.run(["sleep", "600"], check=True)  # HERE


def main():
    run = Run(culprit=0)
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        train_step(model, optimizer, batch)
        if step == run.step:
            if run.trouble(step):
                upload()
            dist.barrier()


if __name__ == "__main__":
    main()
