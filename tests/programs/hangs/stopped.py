"""One rank has been stopped by a signal, as by Ctrl-Z or a scheduler that suspends; the others wait for its gradients."""

import os
import signal

from parts import Run, train_step

EXPECTED = {"code": "rank_stopped", "ranks": "culprit", "where": "main"}


def main():
    run = Run()
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        if run.trouble(step):
            os.kill(os.getpid(), signal.SIGSTOP)  # HERE
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    main()
