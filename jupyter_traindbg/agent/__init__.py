"""The part that runs INSIDE the training process.

Standard library only; torch is used only if the process has imported it already; nothing here imports the rest of the package, and
all imports are relative, so the same source also runs from a zip under another name (`jupyter_traindbg.attach.payload`). Python 3.9+.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Optional

from . import rendezvous

if TYPE_CHECKING:
    from .core import Agent

__all__ = ["rendezvous", "running", "start"]

_agent: Optional[Agent] = None
_starting = threading.Lock()


def running() -> Optional[Agent]:
    """The agent of this process, or None. (A forked child has a copy of its parent's, without its threads.)"""
    return _agent if _agent is not None and _agent.alive and _agent.pid == os.getpid() else None


def start(directory: Optional[str] = None, *, keep: bool = False, version: str = "") -> Agent:
    """Start the agent in this process, or return the one that runs.

    `directory` is the rendezvous directory (made where not given). With `keep` the agent stays until `Agent.stop`; without, it leaves
    with its last client. Takes milliseconds; raises OSError where the directory cannot be had.
    """
    global _agent
    from .core import Agent  # a client imports this package for `rendezvous` alone

    with _starting:
        agent = running()
        if agent is None:
            agent = _agent = Agent(directory, version)
            agent.open()
        agent.keep = agent.keep or keep
        return agent
