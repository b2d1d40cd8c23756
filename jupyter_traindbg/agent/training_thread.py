"""Which thread of this process trains."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .core import Agent

__all__ = ["training_thread"]


def training_thread(agent: Agent) -> int:
    """Its ident: where a step or a backward pass was seen to end; before any, the main thread. In a worker of Ray's whose main thread runs
    no call that is the first one that does: Ray Train has a thread of its own for the user's function.

    Some microseconds a frame in such a worker, else nothing.
    """
    known, main = agent.safepoints.thread_id, threading.main_thread().ident or 0
    if known is not None or "ray._raylet" not in sys.modules:
        return known or main
    from .executing import calls, is_worker

    running = [call.ident for call in calls() if call.task is None and call.ident] if is_worker() else []
    return main if main in running or not running else running[0]
