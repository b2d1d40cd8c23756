"""Nothing is wrong: one rank writes its part of a checkpoint of a fixed size, page by page, on a slow disk; the others wait."""

import os
import time

import torch.distributed as dist
from parts import Run, train_step

EXPECTED = {"code": None, "state": ("progressing", "slow"), "also": "cpu_phase"}
PAGE, PAGES = 8192, 5000


def write(path):
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    os.posix_fallocate(file, 0, PAGE * PAGES)
    for n in range(PAGES):
        os.pwrite(file, bytes(PAGE), n * PAGE)
        os.fdatasync(file)
        time.sleep(0.15)


def main():
    run = Run()
    model, optimizer = run.model()
    with run.folder() as folder:
        for step, batch in enumerate(run.loader()):
            train_step(model, optimizer, batch)
            if step == run.step:
                if run.trouble(step):
                    write(f"{folder}/part.distcp")
                dist.barrier()


if __name__ == "__main__":
    main()
