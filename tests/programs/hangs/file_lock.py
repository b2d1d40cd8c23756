"""One rank waits for the lock of a cache directory, which a process that was left behind still holds."""

import fcntl
import os
import time

from parts import Run, train_step

EXPECTED = {"code": ("lock_wait", "io_wait"), "ranks": "culprit", "where": "lock_cache"}


def leave_one_behind(path):
    """A process that takes the lock and forgets about it."""
    told, tell = os.pipe()
    if os.fork() == 0:
        fcntl.flock(os.open(path, os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)
        os.write(tell, b"!")
        time.sleep(600)
    os.read(told, 1)


def lock_cache(path):
    with open(path, "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)  # HERE


def main():
    run = Run()
    with run.folder() as folder:
        path = os.path.join(folder, "cache.lock")
        if run.is_culprit:
            leave_one_behind(path)
        model, optimizer = run.model()
        for step, batch in enumerate(run.loader()):
            if run.trouble(step):
                lock_cache(path)
            train_step(model, optimizer, batch)


if __name__ == "__main__":
    main()
