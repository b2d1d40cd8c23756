"""Who holds what grows from step to step: measured, and followed to a name, in pauses of the training between its steps."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional

from ..growth.looking import Look
from ..growth.recorded import filling
from ..saying import said

if TYPE_CHECKING:
    from ..core import Agent

COST = "pauses of 15 ms after some 20 steps; 30 ms for each 300,000 objects where all of them have to be searched"
SLOW_S = 0.1
"""Of steps that take longer fewer are waited for."""
NATIVE_STEPS = 30
"""So many have to grow evenly where no object of Python's explains it."""
OWN_OBJECTS = 4.5
"""What our own records of a step are at most, 3 as a rule, of objects that the garbage collector counts."""


def run(
    agent: Agent, apart: int = 3, deadline_s: float = 8.0, *, grows: bool = False, thorough: bool = False
) -> Dict[str, Any]:
    """In rounds that are `apart` steps from each other. `thorough`: all objects are searched, however long that takes.

    ``looked``: whether the steps came that it takes; ``note`` says what was left out. ``after``: the allocators' books over `NATIVE_STEPS`,
    where these have said that something `grows` and nothing of Python's was found to; with ``recorder``: see `filling`.
    """
    ends = time.monotonic() + deadline_s
    points = agent.safepoints

    def at(function: Callable[[], Any], steps: int) -> bool:
        due = points.steps + steps
        return points.run(function, max(0.0, ends - time.monotonic()), lambda: points.steps >= due) is not None

    look = Look(at, lambda: points.steps)
    slow = (points.usual_step_s() or 0.0) > SLOW_S and not thorough
    if not look.run(1 if slow else apart, thorough=thorough):
        late = said("not looked at: the steps that it takes did not come in {deadline} s", deadline=f"{deadline_s:.0f}")
        return {"looked": False, "note": late}
    told = look.told()
    unexplained = grows and not told["held"] and not told["some_stay"]
    return {**told, "looked": True, "after": _unexplained(agent, look, ends) if unexplained else None}


def _unexplained(agent: Agent, look: Look, ends: float) -> Optional[Dict[str, Any]]:
    """The books once more, over more steps; None where these do not come, where garbage of Python's was collected meanwhile, or waits to
    be, or where a container has become longer since, even if it did so now and then.
    """
    before, collected, young, began_s = agent.safepoints.steps, _collected(), gc.get_count()[0], time.time()
    agent.ledger.wait(NATIVE_STEPS, ends, before, lambda: not agent.alive)
    report = agent.ledger.report(before)
    waits = gc.get_count()[0] - young > OWN_OBJECTS * report["steps"]
    was_collected = _collected() - collected >= NATIVE_STEPS
    if report["steps"] < NATIVE_STEPS or waits or was_collected or look.some_have_grown():
        return None
    return {**report, "recorder": filling(began_s) if report["even"]["host"] else None}


def _collected() -> int:
    """How much garbage the collector has freed so far."""
    return sum(generation["collected"] for generation in gc.get_stats())
