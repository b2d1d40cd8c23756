"""What is wrong with a job's threads by themselves, whether its training waits for them or not: locks that wait for each other. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..language import text
from ..model import Finding, LockWait, ProcessThreads, ThreadUse
from .hang.deadlock import deadlock

__all__ = ["findings"]

Waits = Sequence[tuple[ThreadUse, LockWait]]


def findings(processes: Iterable[ProcessThreads]) -> list[Finding]:
    """A deadlock for each ring of threads that are all still there. Their own locks tell."""
    rings = [(process, _waits(process, ring), len(ring)) for process in processes for ring in process.rings]
    return [_deadlock(process, waits) for process, waits, many in rings if len(waits) == many]


def _waits(process: ProcessThreads, ring: Sequence[int]) -> Waits:
    by_tid = {thread.tid: thread for thread in process.threads}
    threads = (by_tid[tid] for tid in ring if tid in by_tid)
    return [(thread, thread.lock) for thread in threads if thread.lock is not None]


def _deadlock(process: ProcessThreads, waits: Waits) -> Finding:
    """A warning where the training goes on without these threads."""
    trains = process.role == "rank" and any(thread.training for thread, _ in waits)
    return deadlock(
        process.rank,
        [thread.name for thread, _ in waits],
        waits[0][1].where,
        [_wait(thread, lock) for thread, lock in waits],
        sure=all(lock.how != "acquire" for _, lock in waits),
        severity="critical" if trains else "warning",
    )


def _wait(thread: ThreadUse, lock: LockWait) -> str:
    waits = text("{name} waits for {name2} at {where}", name=thread.name, name2=lock.name, where=lock.where)
    if lock.how == "acquire":
        holds = text(
            "{holder} has acquired it at {holder_where} and not released it",
            holder=lock.holder,
            holder_where=lock.holder_where,
        )
    else:
        holds = text("{holder} holds it since {holder_where}", holder=lock.holder, holder_where=lock.holder_where)
    return text("{waits}; {holds}", waits=waits, holds=holds)
