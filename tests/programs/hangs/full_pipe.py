"""One rank feeds a filter program and reads its answer only afterwards: both pipes fill up, and each waits for the other."""

import subprocess

from parts import Run, train_step

EXPECTED = {"code": ("io_wait", "python_wait"), "ranks": "culprit", "where": "filtered"}


def filtered(text):
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as program:
        program.stdin.write(text)  # HERE
        program.stdin.close()
        return program.stdout.read()


def main():
    run = Run()
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        if run.trouble(step):
            filtered(b"a line of text\n" * 1_000_000)
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    main()
