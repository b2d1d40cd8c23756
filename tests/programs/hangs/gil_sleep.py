"""One rank calls a C extension that keeps the GIL and never comes back (here: libc's sleep, called without releasing it)."""

import ctypes

from parts import Run, train_step

EXPECTED = {"code": "gil_held", "ranks": "culprit", "where": "augment"}


def augment(batch):
    ctypes.PyDLL(None).sleep(600)  # HERE


def main():
    run = Run()
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        if run.trouble(step):
            augment(batch)
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    main()
