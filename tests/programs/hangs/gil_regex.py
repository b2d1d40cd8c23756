"""One rank cleans a line of text with a regular expression that backtracks for hours, in C and with the GIL held."""

import re

from parts import Run, train_step

EXPECTED = {"code": "gil_held", "ranks": "culprit", "where": "clean", "also": ("cpu_phase",)}
TRAILING = re.compile(r"(\w+\s?)+$")


def clean(line):
    return TRAILING.sub("", line)  # HERE


def main():
    run = Run()
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        if run.trouble(step):
            clean("x" * 64 + "!")
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    main()
