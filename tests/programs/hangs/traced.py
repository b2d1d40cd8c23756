"""Somebody looks at one rank with a debugger and has gone for lunch; the others wait for its gradients."""

import ctypes
import os
import time

from parts import Run, say, train_step

EXPECTED = {"code": "rank_stopped", "ranks": "culprit", "where": "main"}
PTRACE_ATTACH = 16
PR_SET_PTRACER = 0x59616D61


def debugger(pid):
    """A process that attaches to `pid` and leaves it stopped."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PTRACER, ctypes.c_ulong(-1))
    if os.fork() == 0:
        time.sleep(0.3)  # as long as a person needs, at least
        if libc.ptrace(PTRACE_ATTACH, pid, None, None) != 0:
            say(f"the debugger could not attach: {os.strerror(ctypes.get_errno())}")
        time.sleep(600)


def main():
    run = Run()
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        if run.trouble(step):
            debugger(os.getpid())
            time.sleep(1)  # HERE
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    main()
