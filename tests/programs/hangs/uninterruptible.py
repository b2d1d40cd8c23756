"""One rank hangs in the kernel in uninterruptible sleep (state D): it starts a program, and the kernel cannot open its input."""

import os

from parts import Run, train_step

EXPECTED = {"code": "uninterruptible", "ranks": "culprit", "where": "decompress", "also": ("gil_held",)}


def decompress(path):
    actions = [(os.POSIX_SPAWN_OPEN, 0, path, os.O_RDONLY, 0)]
    os.posix_spawn("/bin/gzip", ["gzip", "-dc"], os.environ, file_actions=actions)  # HERE


def main():
    run = Run()
    model, optimizer = run.model()
    with run.folder() as folder:
        shard = os.path.join(folder, "shard-0007.gz")
        os.mkfifo(shard)
        for step, batch in enumerate(run.loader()):
            if run.trouble(step):
                decompress(shard)
            train_step(model, optimizer, batch)


if __name__ == "__main__":
    main()
