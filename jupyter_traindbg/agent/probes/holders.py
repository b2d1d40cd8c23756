"""Who holds what grows from step to step: measured, and followed to a name, in pauses of the training between its steps."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Callable, Dict

from ..growth.looking import Look

if TYPE_CHECKING:
    from ..core import Agent

COST = "pauses of 15 ms after some 20 steps; 30 ms for each 300,000 objects where all of them have to be searched"
SLOW_S = 0.1
"""Of steps that take longer fewer are waited for."""


def run(agent: Agent, apart: int = 3, deadline_s: float = 8.0, thorough: bool = False) -> Dict[str, Any]:
    """In rounds that are `apart` steps from each other. `thorough`: all objects are searched, however long that takes.

    ``looked``: whether the steps came that it takes; ``note`` says what was left out.
    """
    ends = time.monotonic() + deadline_s
    points = agent.safepoints

    def at(function: Callable[[], Any], steps: int) -> bool:
        due = points.steps + steps
        return points.run(function, max(0.0, ends - time.monotonic()), lambda: points.steps >= due) is not None

    look = Look(at, lambda: points.steps)
    slow = (points.usual_step_s() or 0.0) > SLOW_S and not thorough
    if not look.run(1 if slow else apart, thorough=thorough):
        return {"looked": False, "note": f"not looked at: the steps that it takes did not come in {deadline_s:.0f} s"}
    return {**look.told(), "looked": True}
