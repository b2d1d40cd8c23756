"""One rank has finished, and its process cannot end: a thread of its own that is no daemon waits for work. The launcher waits too."""

import queue
import threading

import torch.distributed as dist
from parts import Run, train_step

EXPECTED = {"code": ("python_wait", "lock_wait"), "ranks": "culprit", "where": "write_logs"}


def write_logs(lines):
    while True:
        lines.get()  # HERE


def main():
    run = Run()
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        train_step(model, optimizer, batch)
        if step == run.step:
            break
    if run.is_culprit:
        threading.Thread(target=write_logs, args=(queue.Queue(),), name="logs").start()
        run.ready(2.0)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
