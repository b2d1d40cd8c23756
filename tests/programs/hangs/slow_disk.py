"""Rank 0 writes one checkpoint to a disk that takes a little at a time, while the others wait at the barrier: slow, and not stuck."""

import os
import time

import torch.distributed as dist
from parts import Run, train_step

EXPECTED = {"code": None, "state": ("progressing", "slow"), "also": ("cpu_phase",)}


def save(path, chunks):
    with open(path, "wb", buffering=0) as file:
        for _ in range(chunks):
            file.write(bytes(8192))
            time.sleep(0.2)


def main():
    run = Run(culprit=0)
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        train_step(model, optimizer, batch)
        if step == run.step:
            if run.trouble(step):
                with run.folder() as folder:
                    save(os.path.join(folder, "model.bin"), 10_000)
            dist.barrier()


if __name__ == "__main__":
    main()
