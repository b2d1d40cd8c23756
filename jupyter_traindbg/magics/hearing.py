"""Says in the cell that runs what becomes of a change in force, when the training of this very kernel makes a new optimizer. No verb."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .. import agent, evidence
from ..agent.saying import as_json
from ..language import text
from ..render.views.learning_rates import succession
from ..spoken import heard

__all__ = ["begin", "listen", "stop"]

MOST = 5
"""Lines for one cell."""
_said = 0


def begin(*_: object) -> None:
    """Another cell begins."""
    global _said
    _said = 0


def listen() -> None:
    """From now on, where this process has an agent. Again and again does no harm."""
    here = agent.running()
    if here is not None and say not in here.listeners:
        here.listeners.append(say)


def stop() -> None:
    here = agent.running()
    if here is not None and say in here.listeners:
        here.listeners.remove(say)


def say(raw: Mapping[str, Any]) -> None:
    """Prints one line, on the training thread: so it stands in that one's cell. A program that makes optimizers all the time is not
    accompanied for long.
    """
    global _said
    _said += 1
    if _said <= MOST:
        entry = evidence.log_entry(heard(json.dumps(raw, default=as_json).encode()))  # as from any other agent
        more = text(" (more of the kind: `%lr`)") if _said == MOST else ""
        print(f"traindbg: {succession(entry)}{more}", flush=True)
