"""One rank reads the lines of a program that has one now and then; the others wait for that rank."""

import subprocess
import sys

from parts import Run, train_step

EXPECTED = {"code": "cpu_phase", "ranks": "culprit", "where": "records", "state": "progressing"}
READS_SLOWLY = """
import sys, time
for n in range(int(sys.argv[1])):
    time.sleep(1.2)
    print("record", n, flush=True)
"""


def records(many):
    with subprocess.Popen([sys.executable, "-c", READS_SLOWLY, str(many)], stdout=subprocess.PIPE) as program:
        return list(program.stdout)  # HERE


def main():
    run = Run()
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        if step == run.step:
            if run.is_culprit:
                records(700)
            else:
                run.ready(4.0)
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    main()
