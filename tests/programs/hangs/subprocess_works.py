"""Rank 0 has a program pack its checkpoint, which takes many minutes; the others wait at the barrier: slow, and not stuck."""

import subprocess

import torch.distributed as dist
from parts import Run, train_step

EXPECTED = {"code": "cpu_phase", "ranks": [0], "where": "pack", "state": ("progressing", "slow")}


def pack():
    subprocess.run("exec gzip < /dev/zero > /dev/null", shell=True, check=True)  # HERE


def main():
    run = Run(culprit=0)
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        train_step(model, optimizer, batch)
        if step == run.step:
            if run.trouble(step):
                pack()
            dist.barrier()


if __name__ == "__main__":
    main()
