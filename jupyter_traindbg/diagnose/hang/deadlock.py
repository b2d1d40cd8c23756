"""Threads that wait for each other's locks, as a finding: told by the source (`locks`) or by the locks themselves (`diagnose.threads`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ...language import text
from ...model import Finding, rank_subjects

__all__ = ["EXPLAINS", "deadlock"]

EXPLAINS = {"thread_deadlock": ("lock_wait", "unequal_steps", "collective_not_issued")}


def deadlock(
    rank: int,
    names: Sequence[str],
    where: str | None,
    evidence: Sequence[str],
    *,
    sure: bool,
    severity: Literal["critical", "warning"] = "critical",
    steps: Sequence[str] = (),
) -> Finding:
    """`names` are those of the threads in the ring; one alone waits for a lock of its own. `steps`: what else is to be done."""
    alone = len(names) == 1
    named = text(" and ").join(names)
    title = text("Deadlock inside rank {rank}: {named} wait for each other's locks", rank=rank, named=named)
    cause = text(
        "Locks are taken in different orders, each thread holding what the other needs: this never ends by itself."
    )
    mend = text("Take these locks in one order everywhere, or use one lock.")
    if alone:
        title = text(
            "Deadlock inside rank {rank}: {named} waits for a lock that it holds itself", rank=rank, named=named
        )
        cause = text("threading.Lock cannot be taken twice by the same thread: this never ends by itself.")
        mend = text("Use threading.RLock, or do not take the lock again further in.")
    return Finding(
        "thread_deadlock",
        severity,
        title,
        rank_subjects([rank]),
        where,
        evidence,
        cause,
        [mend, *steps],
        confidence="high" if sure else "medium",
    )
