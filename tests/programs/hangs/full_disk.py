"""One rank saves to a disk that is full, and tries again and again; the others wait for its gradients."""

import os
import time

from parts import Run, train_step

EXPECTED = {"code": "python_wait", "ranks": "culprit", "where": "save", "launcher": "full", "also": "disk_full"}
LARGE = 64 << 20


def save(path):
    while True:
        try:
            with open(path, "wb") as file:
                file.write(bytes(LARGE))
            return
        except OSError as e:  # "No space left on device": somebody may make room
            print(f"cannot save yet: {e}", flush=True)
            time.sleep(600)  # HERE


def main():
    run = Run()
    os.chdir(os.environ["FULL"])
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        if run.trouble(step):
            save("checkpoint.pt")
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    main()
