"""One rank tokenises in a pool of processes; one of those is stopped in the middle of its work."""

import multiprocessing
import os
import signal

import torch.distributed as dist
from parts import Run, train_step

EXPECTED = {"code": ("python_wait", "rank_stopped"), "ranks": "culprit", "where": "tokenise"}


def tokenise(text):
    if text.startswith("stop"):
        os.kill(os.getpid(), signal.SIGSTOP)  # HERE
    return len(text)


def prepare(pool, texts):
    return pool.map(tokenise, texts)


def main():
    run = Run()
    model, optimizer = run.model()
    pool = multiprocessing.Pool(2)
    for step, batch in enumerate(run.loader()):
        train_step(model, optimizer, batch)
        if step == run.step:
            prepare(pool, ["stop"] if run.trouble(step) else ["go"])
            dist.barrier()


if __name__ == "__main__":
    main()
