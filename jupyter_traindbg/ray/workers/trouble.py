"""How much a row is worth looking at: what sorts the rows. A verdict is up to the rules, which see all rows together.

One look must not accuse anybody who merely works: whoever computes, sleeps, serves, is idle or waits for others is in no trouble by itself.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ...model import NotAvailable, RayWorker, Wait, WaitKind
from .facts import Facts
from .stacked import STANDS as UNKNOWN_SINCE
from .words import known

__all__ = ["LATE", "NONE", "STANDS", "WRONG", "in_order"]

NONE, LATE, STANDS, WRONG = 0, 1, 2, 3
"""No trouble; held up (by others, or by its start); stands still where its like do not; cannot go on without help."""

PATIENCE_S = 5.0
"""Whatever takes less long than this is no trouble."""
START_S = 30.0
"""A process of Ray's takes some seconds to come up, many at once take a minute."""
SLOWER = 4.0
"""So many times as long in ``__init__`` as its peers have taken."""
ON_THE_WAY = ("starting", "registering", "building runtime_env", "waiting for resources")
BUSY_SHARE = 20.0
"""A process that uses so many percent of a CPU is at work, whatever its Python threads wait for: native code has threads of its own."""

_LOCKS: frozenset[WaitKind] = frozenset(("lock", "native"))
_EVENTS: frozenset[WaitKind] = frozenset(
    ("thread", "network", "file", "pipe", "process", "terminal", "child", "init", "device")
)
"""What one may well wait for, for long: it counts only in ``__init__``, where it keeps everybody else waiting."""


def in_order(facts: Facts, rows: Sequence[RayWorker]) -> list[RayWorker]:
    """`rows` with their trouble, most first; those that wait for one in trouble come after it."""
    usual_s = _usual_init_s(facts)
    judged = [replace(row, trouble=_trouble(row, usual_s)) for row in rows]
    troubled = {row.who for row in judged if row.trouble >= STANDS}
    judged = [
        replace(row, trouble=LATE) if row.trouble == NONE and troubled.intersection(row.waits_for) else row
        for row in judged
    ]
    return sorted(judged, key=lambda row: (-row.trouble, row.kind != "driver", -known(row.since_s), row.who))


def _usual_init_s(facts: Facts) -> Mapping[str, float]:
    """How long ``__init__`` has taken, the median of those of a class that are through."""
    took: defaultdict[str, list[float]] = defaultdict(list)
    classes = {actor.actor_id: actor.class_name for actor in facts.cluster.actors}
    for actor_id, task in facts.creations.items():
        if task.state == "FINISHED" and "RUNNING" in task.times and "FINISHED" in task.times:
            took[classes.get(actor_id, "")].append(task.times["FINISHED"] - task.times["RUNNING"])
    return {name: statistics.median(times) for name, times in took.items()}


def _trouble(row: RayWorker, usual_s: Mapping[str, float]) -> int:
    if any(lock.cycle for lock in row.locks) or row.state == "infeasible":
        return WRONG
    if row.state == "dead":
        return LATE if row.kind == "task" else WRONG  # a task has been tried again, or whoever wants it is told
    if row.state == "in __init__":
        return _in_init(row, usual_s.get(row.class_name, 0.0))
    if row.state in ON_THE_WAY and known(row.since_s) > START_S:
        return LATE
    stands = row.state in ("running", "idle") and _stands(row, _at_lock)
    return STANDS if stands or row.state == "restarting" else NONE


def _in_init(row: RayWorker, usual_s: float) -> int:
    if known(row.since_s) <= max(PATIENCE_S, SLOWER * usual_s):
        return NONE
    return STANDS if _stands(row, _at_event) else LATE


def _at_lock(wait: Wait) -> bool:
    return wait.kind in _LOCKS or (wait.kind == "thread" and wait.op == "join")


def _at_event(wait: Wait) -> bool:
    return wait.kind in _EVENTS or _at_lock(wait)


def _stands(row: RayWorker, counts: Callable[[Wait], bool]) -> bool:
    """Whether its thread has not moved for a while, in a wait that `counts`, and nothing else of the process is at work."""
    if row.still_s == UNKNOWN_SINCE:
        if known(row.since_s) < 2 * PATIENCE_S:
            return False
    elif known(row.still_s) < PATIENCE_S:
        return False
    if not isinstance(row.cpu_percent, NotAvailable) and row.cpu_percent > BUSY_SHARE:
        return False
    return counts(row.waiting_for)
