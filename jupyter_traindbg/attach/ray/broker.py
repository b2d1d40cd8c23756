"""The broker: the child process that joins a Ray cluster for us (``python -m jupyter_traindbg.attach.ray.broker IN OUT PARENT``).

A Ray driver ends its whole process when the cluster goes away, and joining can take for ever: neither may happen to a notebook's kernel,
which may want ray for itself besides. The broker runs named functions of this package, each on a thread of its own, and answers by number.
It ends when its parent does, in whatever way: by the end of the pipe, and by the kernel's word where somebody else inherited that pipe.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from ...hosts import wire

__all__ = ["main"]

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Serve until the parent hangs up."""
    requests, answers, parent = map(int, arguments)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return  # it ended before we had asked to be told
    for fd in (requests, answers):
        os.set_inheritable(fd, False)
    wire.serve_all(requests, answers)
    os._exit(0)  # no good-bye to the cluster, which might not answer: that its driver is gone it sees by itself


if __name__ == "__main__":
    main(sys.argv[1:])
