"""One rank asks a licence server that says "try again later", and sleeps; the others wait for its gradients."""

import time

from parts import Run, train_step

EXPECTED = {"code": "python_wait", "ranks": "culprit", "where": "wait_for_quota"}


def wait_for_quota():
    while True:
        time.sleep(600)  # HERE


def main():
    run = Run()
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        if run.trouble(step):
            wait_for_quota()
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    main()
