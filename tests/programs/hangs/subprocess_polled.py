"""Nothing is wrong: one rank builds its kernels by a program whose children come and go, and looks now and then whether it is through."""

import subprocess
import time

import torch.distributed as dist
from parts import Run, train_step

EXPECTED = {"code": "cpu_phase", "ranks": "culprit", "where": "build", "state": ("progressing", "slow")}
MAKE = "head -c 3000000 /dev/urandom > unit; n=0; while [ $n -lt 9999 ]; do (gzip -9 < unit | tail -c 99 > unit.o); n=$((n + 1)); done"


def build(folder):
    make = subprocess.Popen(["sh", "-ec", MAKE], cwd=folder)
    while make.poll() is None:
        time.sleep(2)  # HERE


def main():
    run = Run()
    model, optimizer = run.model()
    with run.folder() as folder:
        for step, batch in enumerate(run.loader()):
            train_step(model, optimizer, batch)
            if step == run.step:
                if run.trouble(step):
                    build(folder)
                dist.barrier()


if __name__ == "__main__":
    main()
