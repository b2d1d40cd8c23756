"""Python's garbage collector: its thresholds and counts by generation, and how long full collections hold the process up."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any, Dict

from ..collecting import Collections

if TYPE_CHECKING:
    from ..core import Agent

COST = "microseconds; while it watches, two calls of Python a collection"
LOOK_S = 0.05


def run(agent: Agent, window_s: float = 1.0) -> Dict[str, Any]:
    """Watches full collections for `window_s`: ``watched``. The figures of ``generations`` count since the process was started."""
    ends = time.monotonic() + window_s
    with Collections() as collections:
        while agent.alive and time.monotonic() < ends:
            time.sleep(min(LOOK_S, max(0.0, ends - time.monotonic())))
    thresholds, counts = gc.get_threshold(), gc.get_count()
    return {
        "enabled": gc.isenabled(),
        "frozen": gc.get_freeze_count(),
        "generations": [
            {**stats, "threshold": thresholds[n], "waiting": counts[n]} for n, stats in enumerate(gc.get_stats())
        ],
        "window_s": window_s,
        "watched": collections.report(),
    }
