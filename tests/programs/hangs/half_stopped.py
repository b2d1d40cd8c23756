"""Every other rank, from rank 1 on, has been stopped by a signal; the rest wait for their gradients."""

import os
import signal

from parts import Run, train_step

EXPECTED = {"code": "rank_stopped", "ranks": "half", "where": "main"}


def main():
    run = Run(culprit=1)
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        if step == run.step:
            run.ready()
            if run.rank % 2:
                os.kill(os.getpid(), signal.SIGSTOP)  # HERE
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    main()
