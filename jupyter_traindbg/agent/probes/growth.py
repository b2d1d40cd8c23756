"""What grows from step to step, and who holds it: the allocators' books first, and objects only where these grow."""

from __future__ import annotations

import collections
import sys
import time
from typing import TYPE_CHECKING, Any, Dict

from ..growth.hooks import HOOKS
from ..growth.ledger import LEAST_STEPS
from ..objects import walk
from ..saying import said

if TYPE_CHECKING:
    from ..core import Agent

COST = "10 us a step where memory does not grow; else see `holders`"
STEPS = 10
"""So many steps tell how much it grows where a look was asked for."""
MANY_HOOKS = 8
"""No module has so many of one kind by design. Each takes next to nothing, and makes every step slower."""
OPEN_STEPS = 16
"""So many steps are waited for where fewer leave it open."""
SOON_S = 0.12
"""By when two steps have to have come, so that more are waited for at all."""


def run(
    agent: Agent,
    watch_s: float = 0.3,
    apart: int = 3,
    deadline_s: float = 8.0,
    *,
    always: bool = False,
    thorough: bool = False,
) -> Dict[str, Any]:
    """Whether the last steps have left something behind, by the books that are kept from the first question for memory on; where there are
    too few yet, steps are waited for, for `watch_s` at most. Where they did, or `always`: look who holds it, in rounds that are `apart`
    steps from each other. `thorough`: all objects are searched, however long that takes.

    ``looked``: whether that was done; ``note`` says why not.
    """
    ends = time.monotonic() + deadline_s
    told: Dict[str, Any] = {"looked": False, "note": "", "watched": None, "after": None}
    points = agent.safepoints
    if not points.active or "torch" not in sys.modules:
        return {**told, "note": said("no step came")}
    after = agent.ledger.settled()
    wanted = STEPS if always else LEAST_STEPS + 1
    by = min(ends, time.monotonic() + watch_s)
    _wait(agent, wanted, by, unless_slow=not always, unless_flat=not always, after=after)
    flat = None if always else agent.ledger.flat_after()
    if flat is not None and len(agent.ledger.since(after)) < LEAST_STEPS:
        after = flat
    if agent.ledger.report(after)["open"]:
        _wait(agent, OPEN_STEPS, min(ends, time.monotonic() + watch_s), unless_slow=True, after=after)
    watched = told["watched"] = agent.ledger.report(after)
    if not watched["steps"] and points.since_last_step_s() is None:
        return {**told, "watched": None, "note": said("no step came")}
    grows = watched["host"] > 0 or watched["cuda"] > 0
    if watched["steps"] < LEAST_STEPS and not always and flat is None:
        return {
            **told,
            "note": said(
                "only {steps} steps came since memory was first asked for; ask again, or with --growth",
                steps=watched["steps"],
            ),
        }
    if not (grows or always or _many_hooks(agent)):
        return told
    how = {"apart": apart, "deadline_s": max(0.0, ends - time.monotonic()), "grows": grows, "thorough": thorough}
    return {**told, **agent.call("holders", how)}


def _wait(
    agent: Agent, steps: int, ends: float, *, unless_slow: bool = False, unless_flat: bool = False, after: int = 0
) -> None:
    """Until the books have so many steps after that one; not where they come slowly, nor where a few tell already that nothing grows."""
    points, ledger = agent.safepoints, agent.ledger
    began, first = time.monotonic(), points.steps

    def over() -> bool:
        slow = unless_slow and time.monotonic() - began > SOON_S and points.steps - first < 2
        return slow or (unless_flat and ledger.flat_after() is not None) or not agent.alive

    ledger.wait(steps, ends, after, over)


def _many_hooks(agent: Agent) -> bool:
    """1 us a module."""
    modules = {id(module): module for model in agent.objects.find().models() for _, module in walk(model)}
    kept = [vars(module).get(name) for module in modules.values() for name in HOOKS]
    return any(len(hooks) >= MANY_HOOKS for hooks in kept if type(hooks) in (dict, collections.OrderedDict))
