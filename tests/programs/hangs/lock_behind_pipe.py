"""A rank reads from a program of its own, which waits for the lock of a file that a process beside the job keeps and sleeps with."""

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

EXPECTED = {
    "code": ("io_wait", "lock_wait", "python_wait"),
    "ranks": "culprit",
    "where": "keep",
    "beside": "keeper",
    "names": "keeper",
}


def locked():
    file = (Path(os.environ["SCENE_FOLDER"]) / "cache.lock").open("a")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def keep():
    with locked():
        parts.publish("keeper", "has it")
        time.sleep(100_000)  # HERE


def unpack(shard):
    if shard == "locked":
        locked()
    print(shard)


def read(shard):
    return subprocess.run([sys.executable, __file__, shard], check=True, stdout=subprocess.PIPE).stdout


def main():
    run = parts.Run()
    parts.published("keeper")
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        if run.trouble(step):
            read("locked")
        parts.train_step(model, optimizer, batch)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        unpack(sys.argv[1])  # without torch: it is there sooner than anybody looks
    else:
        import parts

        keep() if parts.beside() == "keeper" else main()
