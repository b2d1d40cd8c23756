"""Nothing is wrong: twenty times a second one rank counts the shards that a program beside the job writes, until there are enough. That
takes minutes; the others wait for it.
"""

import os
import time
from pathlib import Path

from parts import Run, beside, publish, published, train_step

EXPECTED = {
    "code": "cpu_phase",
    "state": ("progressing",),
    "ranks": "culprit",
    "where": "wait_for_shards",
    "says": r"written was \d+, and is \d+",
    "beside": "writer",
}
SHARDS = 3000


def write_shards():
    folder = Path(published("shards"))
    for number in range(SHARDS):
        (folder / f"{number:05}").touch()
        time.sleep(0.1)


def wait_for_shards(folder):
    written = 0
    while written < SHARDS:
        written = len(os.listdir(folder))  # HERE
        time.sleep(0.05)  # HERE


def main():
    run = Run()
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        train_step(model, optimizer, batch)
        if run.trouble(step):
            with run.folder() as folder:
                publish("shards", folder)
                wait_for_shards(folder)


if __name__ == "__main__":
    write_shards() if beside() else main()
