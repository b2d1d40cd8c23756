"""Rank 0 asks at the terminal whether to overwrite a checkpoint, and nobody reads it; the others wait for its gradients."""

from parts import Run, train_step

EXPECTED = {"code": ("python_wait", "io_wait"), "ranks": [0], "where": "save"}


def save():
    return input("step-3.pt exists. Overwrite? [y/N] ")  # HERE


def main():
    run = Run(culprit=0)
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        if run.trouble(step):
            save()
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    main()
