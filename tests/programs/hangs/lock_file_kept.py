"""A cache is filled under a lock file, by one rank after the other. One meets a broken shard, skips it, and with it the unlocking."""

import os
import time

import torch.distributed as dist
from filelock import SoftFileLock
from parts import Run, train_step

EXPECTED = {"code": "lock_wait", "ranks": "culprit", "where": ("main", "fill")}


def fill(lock, shards):
    lock.acquire(poll_interval=0.02)
    for shard in shards:
        if shard is None:
            return  # a broken one
        time.sleep(0.01)
    lock.release()


def main():
    run = Run()
    model, optimizer = run.model()
    path = [None]
    with run.folder() as folder:
        path[0] = os.path.join(folder, "cache.lock")
        dist.broadcast_object_list(path)
        lock = SoftFileLock(path[0])
        for step, batch in enumerate(run.loader()):
            train_step(model, optimizer, batch)
            if step == run.step:
                broken = run.trouble(step)
                time.sleep(0 if broken else 0.5)  # the others come to it later
                fill(lock, [None] if broken else [1, 2])
                dist.barrier()  # HERE


if __name__ == "__main__":
    main()
