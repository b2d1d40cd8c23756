"""Rank 0 starts a process that writes its metrics and joins it; that one waits for an item that nobody puts."""

import multiprocessing

import torch.distributed as dist
from parts import Run, train_step

EXPECTED = {"code": ("python_wait", "lock_wait"), "ranks": "culprit", "where": "write"}


def write(queue):
    while True:
        item = queue.get()  # HERE
        if item is None:
            break


def flush(queue, writer):
    writer.join()


def main():
    run = Run()
    model, optimizer = run.model()
    queue = multiprocessing.Queue()
    writer = multiprocessing.Process(target=write, args=(queue,))
    writer.start()
    for step, batch in enumerate(run.loader()):
        train_step(model, optimizer, batch)
        if step == run.step:
            if not run.trouble(step):
                queue.put(None)
            flush(queue, writer)
            dist.barrier()


if __name__ == "__main__":
    main()
