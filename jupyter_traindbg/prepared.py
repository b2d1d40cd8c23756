"""Prepared processes: the agent is started by the process itself, so no permission to inject is needed.

``traindbg.serve()`` in the code, or ``TRAINDBG=1`` in the environment (`traindbg_autostart.pth`, which costs other programs one dictionary
look-up at start).
"""

from __future__ import annotations

import os
import sys

from . import agent
from ._version import __version__

__all__ = ["serve"]


def serve() -> str:
    """Start the agent in this process and keep it; returns the path of its socket, which is a target for `attach`.

    Takes milliseconds, at any time, before or after ``import torch``. Calling it again does nothing more. Raises OSError where its
    directory cannot be made.
    """
    running = agent.start(keep=True, version=__version__)
    return os.path.join(running.directory, agent.rendezvous.SOCKET)


def autostart() -> None:
    """Called at interpreter start where ``TRAINDBG`` is set. A failure is told in one line and never stops the program."""
    serves = any(name in word for word in sys.orig_argv for name in ("_tracker", "multiprocessing.forkserver"))
    if os.environ.get("TRAINDBG", "0") in ("", "0") or serves:
        return  # multiprocessing's helpers are Python processes too, and nobody trains in them; one that forks must have no threads
    try:
        serve()
    except Exception as e:  # noqa: BLE001 - whatever it is, the training is more important than we are
        print(f"traindbg: not listening: {e}", file=sys.stderr)
