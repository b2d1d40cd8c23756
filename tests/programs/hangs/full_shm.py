"""A dead run has left /dev/shm full, where one rank wants to put its samples: it waits for room, and the others for its gradients."""

import contextlib
import time

from parts import Run, train_step

EXPECTED = {"code": "python_wait", "ranks": "culprit", "where": "share", "launcher": "full_shm", "also": "shm_full"}
PIECE = 1 << 20


def leave_behind():
    """What the dead run was made of: all that there was room for."""
    with open("/dev/shm/samples-of-a-dead-run", "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(PIECE))


def share(name):
    while True:
        try:
            with open(f"/dev/shm/{name}", "wb", buffering=0) as file:
                file.write(bytes(PIECE))
            return
        except OSError:
            time.sleep(600)  # HERE


def main():
    run = Run()
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        if run.trouble(step):
            leave_behind()
            share("samples")
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    main()
