"""One rank has three times the work of the others at every step: longer texts. Nothing hangs, and all are as slow as it."""

import torch
from parts import Run, train_step

EXPECTED = {"code": "straggler", "ranks": "culprit", "where": "tokenise", "state": ("slow",)}


def tokenise(times):
    for _ in range(times):
        torch.linalg.matrix_power(torch.eye(96), 40)  # HERE


def main():
    run = Run()
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        tokenise(360 if run.is_culprit else 40)
        train_step(model, optimizer, batch)
        if step == 30:
            run.ready()


if __name__ == "__main__":
    main()
