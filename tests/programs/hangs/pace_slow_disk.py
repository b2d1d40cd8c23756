"""One rank reads from a slower disk than the others: its batches come late, and all wait for it at every step."""

import time

from parts import Run, Squares, train_step

EXPECTED = {"code": "straggler", "ranks": "culprit", "where": ("__getitem__", "main"), "state": ("slow",)}


class Disk(Squares):
    def __init__(self, seconds):
        self.seconds = seconds

    def __getitem__(self, i):
        time.sleep(self.seconds)  # HERE
        return super().__getitem__(i)


def main():
    run = Run()
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader(Disk(0.02 if run.is_culprit else 0.002))):  # HERE
        train_step(model, optimizer, batch)
        if step == 30:
            run.ready()


if __name__ == "__main__":
    main()
