"""Workers and tasks that the raylet killed because their node ran out of memory."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...language import text
from ...model import NotAvailable, RayEvent, RayWorker
from ..hang.words import alike
from .case import Hit, RayCase, hit, known
from .peers import waiting_for
from .words import bytes_words, names

__all__ = ["rule"]

RECENT_S = 600.0
"""What is older is history, where the job goes on."""


def rule(case: RayCase) -> list[Hit]:
    killed = [r for r in case.rows if (d := case.death(r)) is not None and d.kind == "out of memory"]
    hits = [_hit(case, same[0].node_id, same) for same in alike(killed, lambda r: r.node_id)]
    events = [e for e in _events(case) if e.node_id not in {r.node_id for r in killed}]
    return hits + [_hit(case, same[0].node_id, [], same) for same in alike(events, lambda e: e.node_id)]


def _events(case: RayCase) -> list[RayEvent]:
    """Kills of which no worker is left to be seen: tasks are tried again, and their first attempts forgotten."""
    events = case.cluster.events
    if isinstance(events, NotAvailable) or not case.running_jobs:
        return []
    begun = [j.started_at for j in case.jobs if j.running and not isinstance(j.started_at, NotAvailable)]
    since = max(case.cluster.taken_at - RECENT_S, min(begun, default=0.0))
    return [e for e in events if e.at >= since and _is_kill(e.message)]


_KILL = re.compile(
    r"low on memory|memory pressure|memory usage threshold|killed due to .{0,40}memory|OutOfMemory", re.I
)
"""How Ray says that it killed for memory. That a crash *may* come from that, it says of every crash."""


def _is_kill(message: str) -> bool:
    return _KILL.search(message) is not None


def _hit(case: RayCase, node_id: str | None, rows: Sequence[RayWorker], events: Sequence[RayEvent] = ()) -> Hit:
    node = next((n for n in case.cluster.nodes if n.node_id == node_id), None)
    name = case.node_name(node_id)
    on = text(" on node {name}", name=name) if name else ""
    whom = names(rows) if rows else text("{count} workers or tasks", count=len(events))
    used = known(node.memory_used_bytes) if node is not None else None
    total = known(node.memory_total_bytes) if node is not None else None
    now = ""
    if used is not None and total is not None:
        now = text("now {used} of {total} are used there", used=bytes_words(used), total=bytes_words(total))
    deaths = [d.words for r in rows[:3] if (d := case.death(r)) is not None]
    return hit(
        "ray_out_of_memory",
        "critical" if case.stands_still or any(r.state == "dead" and r.kind == "actor" for r in rows) else "warning",
        text("{whom} killed by Ray for want of memory{on}", whom=whom, on=on),
        rows or ([f"node {name}"] if name else []),
        evidence=[*dict.fromkeys(deaths), *(e.message[:300] for e in events[:2]), now, *waiting_for(case, rows)],
        cause=text(
            "When a node's memory is nearly full (95 % by default) its raylet kills workers, so that the "
            "node survives; tasks are tried again and may go the same way."
        ),
        next_steps=[
            text(
                "Run fewer workers on a node, or make room for each: `memory=` in `.options(...)` lets Ray place "
                "no more than fit."
            ),
            text("See what grows: `traindbg ray-workers` shows the memory of each."),
        ],
        explains=case.drivers,
    )
