"""The recorded optimizer steps after a given one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Dict

from ..recorder import FIELDS

if TYPE_CHECKING:
    from ..core import Agent

COST = "a microsecond a record; nothing on the training thread"


FEW = 3


def run(agent: Agent, since: int = 0, last: int = 0, deadline_s: float = 10.0) -> Dict[str, Any]:
    """`since`: only records after that step. `last`: at most that many, the newest (0: all).

    An agent that has just arrived waits for its first `FEW` steps, as long as that is worth while.
    """
    ends = time.monotonic() + agent.safepoints.patience_s(deadline_s)
    while agent.safepoints.active and agent.recorder.step < FEW and time.monotonic() < ends:
        time.sleep(0.01)
    records = agent.recorder.since(since)
    note = "" if agent.safepoints.active else "torch has not been imported in this process"
    return {
        "fields": FIELDS,
        "records": records[-last:] if last else records,
        "step": agent.recorder.step,
        "note": note,
    }
