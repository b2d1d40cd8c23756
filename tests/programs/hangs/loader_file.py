"""A DataLoader worker of one rank reads a file that never comes, as from a dead network file system (here: a pipe)."""

import os

from parts import Run, Squares, train_step

EXPECTED = {"code": "dataloader_worker_stuck", "ranks": "culprit", "where": "__getitem__"}


class Shards(Squares):
    def __init__(self, path, bad):
        self.path, self.bad = path, bad

    def __getitem__(self, i):
        if i == self.bad:
            with open(self.path, "rb") as f:  # HERE
                f.read()
        return super().__getitem__(i)


def main():
    run = Run()
    model, optimizer = run.model()
    with run.folder() as folder:
        path = os.path.join(folder, "shard-0007.bin")
        os.mkfifo(path)
        bad = run.step * 4 * run.world + run.rank if run.is_culprit else None
        for step, batch in enumerate(run.loader(Shards(path, bad), workers=2)):
            train_step(model, optimizer, batch)
            run.trouble(step + 1)


if __name__ == "__main__":
    main()
