"""One rank is to write an index and ends without having done so, with exit status 0; the others look for it again and again."""

import os
import sys
import time

from parts import Run, train_step

EXPECTED = {
    "code": "rank_ended",
    "ranks": "culprit",
    "where": None,
    "state": ("stuck", "failed"),
    "launcher": "patient",
}


def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.1)


def main():
    run = Run(first_culprit=1)  # rank 0 has the store
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        train_step(model, optimizer, batch)
        if step == run.step:
            if run.trouble(step):
                sys.exit(0)
            wait_for("/nowhere/index.json")


if __name__ == "__main__":
    main()
