"""One rank's table of samples is larger than the memory it may have: every batch is read back from the swap, at the disk's pace."""

import mmap
import random
import time

import torch.distributed as dist
from parts import Run, Squares, train_step

EXPECTED = {
    "code": "swapping",
    "ranks": "culprit",
    "where": ("__getitem__", "<genexpr>"),
    "launcher": "swap",
    "state": ("slow", "stuck"),
    "also": ("straggler", "dataloader_wait"),
}
TABLE, PIECE, PAGE = 640 << 20, 4 << 20, 4096


class Table(Squares):
    """Samples that were made beforehand; each needs rows from all over the table."""

    def __init__(self):
        self.sample = super().__getitem__(
            1
        )  # to make one each time would read torch's own pages back, which is the time of another line
        self.rows = mmap.mmap(-1, TABLE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for at in range(0, TABLE, PAGE):
            self.rows[at] = 1
            if not at % PIECE:
                time.sleep(0.02)  # no faster than the swap takes it, or the kernel ends this process

    def __getitem__(self, i):
        # all in one line, because any page that it touches may have to be read back: this object's too, not only the table's
        return self.sample[: sum(self.rows[random.randrange(0, TABLE, PAGE)] for _ in range(6_000))]  # HERE


def main():
    run = Run()
    model, optimizer = run.model()
    data = Squares()
    if run.is_culprit:
        run.with_little_memory()
        data = Table()
    dist.barrier()  # the table takes a while
    for step, batch in enumerate(run.loader(data)):
        run.trouble(step)
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    main()
