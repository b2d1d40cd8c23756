"""A rank locks its cache and starts a tool that locks the same file: the tool waits for the lock, and the rank for the tool."""

import fcntl
import subprocess

import torch.distributed as dist
from parts import Run, train_step

EXPECTED = {"code": ("python_wait", "lock_wait"), "ranks": "culprit", "where": "unpack"}


def unpack(lock):
    subprocess.run(["flock", lock, "true"], check=True, capture_output=True)  # HERE


def main():
    run = Run()
    model, optimizer = run.model()
    with run.folder() as folder:
        lock = f"{folder}/cache.lock"
        for step, batch in enumerate(run.loader()):
            train_step(model, optimizer, batch)
            if step == run.step:
                with open(lock, "w") as file:
                    if run.trouble(step):
                        fcntl.flock(file, fcntl.LOCK_EX)
                    unpack(lock)
                dist.barrier()


if __name__ == "__main__":
    main()
