"""The next batches that the program takes from its DataLoaders: their shapes; and how each DataLoader is set up."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Dict

from ..batch_watch import BatchWatch, loader_told
from ..saying import said

if TYPE_CHECKING:
    from ..core import Agent

COST = "20 us a batch on the training thread while it watches; one search for the loaders (0.1 ms to 100 ms)"
LOOK_S = 0.005


def run(agent: Agent, batches: int = 8, deadline_s: float = 4.0) -> Dict[str, Any]:
    """Waits for so many `batches`, until none has come for several usual steps, or `deadline_s` is over.

    ``loaders`` are those that gave them, by the number in a batch's ``loader``, and then the others that were found.
    """
    watch = BatchWatch(agent, batches)
    patience_s, ends = agent.safepoints.patience_s(deadline_s), time.monotonic() + deadline_s
    agent.recorder.fetched.append(watch.saw)
    try:
        while agent.alive and time.monotonic() < min(ends, watch.last_s + patience_s) and not watch.done.wait(LOOK_S):
            pass
    finally:
        agent.recorder.fetched.remove(watch.saw)
    passed = f"{time.monotonic() - watch.began_s:.1f}"
    note = "" if watch.batches else said("no batch was taken in {passed} s", passed=passed)
    return {"batches": watch.batches, "loaders": loader_told(agent, watch), "note": note}
