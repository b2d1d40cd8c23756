"""One rank reads a shard that never comes, as from a dead network file system (here: a pipe that nobody fills)."""

import os

from parts import Run, train_step

EXPECTED = {"code": "io_wait", "ranks": "culprit", "where": "read_shard"}


def read_shard(path):
    with open(path, "rb", buffering=0) as f:
        return f.read(1 << 20)  # HERE


def main():
    run = Run()
    model, optimizer = run.model()
    with run.folder() as folder:
        shard = os.path.join(folder, "shard-0007.bin")
        os.mkfifo(shard)
        keep_open = os.open(shard, os.O_RDWR)
        for step, batch in enumerate(run.loader()):
            if run.trouble(step):
                read_shard(shard)
            train_step(model, optimizer, batch)
        os.close(keep_open)


if __name__ == "__main__":
    main()
