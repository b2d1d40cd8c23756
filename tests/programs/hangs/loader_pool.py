"""A DataLoader worker of one rank waits in a pool of its own whose process was killed."""

import multiprocessing
import os
import signal

from parts import Run, Squares, train_step

EXPECTED = {"code": "dataloader_worker_stuck", "ranks": "culprit", "where": "__getitem__"}


def resize(i):
    os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does when memory is short


class Resized(Squares):
    def __init__(self, bad):
        self.bad = bad

    def __getitem__(self, i):
        if i == self.bad:
            context = multiprocessing.get_context("fork")
            multiprocessing.current_process()._config["daemon"] = False  # a known trick, to be allowed children
            with context.Pool(1) as pool:
                pool.map(resize, [i])  # HERE
        return super().__getitem__(i)


def main():
    run = Run()
    model, optimizer = run.model()
    bad = run.step * 4 * run.world + run.rank if run.is_culprit else None
    for step, batch in enumerate(run.loader(Resized(bad), workers=1)):
        train_step(model, optimizer, batch)
        run.trouble(step + 1)


if __name__ == "__main__":
    main()
