"""Nothing is wrong but that reading takes its time, on every rank alike: a step every two seconds."""

import time

from parts import Run, Squares, train_step

EXPECTED = {"code": None, "state": ("healthy", "slow", "progressing")}


class SlowDisk(Squares):
    def __getitem__(self, i):
        time.sleep(0.5)
        return super().__getitem__(i)


def main():
    run = Run()
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader(SlowDisk(), workers=1)):
        train_step(model, optimizer, batch)
        run.trouble(step)


if __name__ == "__main__":
    main()
