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
    waits = text(
        f"{thread.name} waits for {lock.name} at {lock.where}", f"{thread.name} 在 {lock.where} 等待 {lock.name}"
    )
    if lock.how == "acquire":
        holds = text(
            f"{lock.holder} has acquired it at {lock.holder_where} and not released it",
            f"{lock.holder} 在 {lock.holder_where} 获取了它且未释放",
        )
    else:
        holds = text(
            f"{lock.holder} holds it since {lock.holder_where}", f"{lock.holder} 自 {lock.holder_where} 起持有它"
        )
    return text(f"{waits}; {holds}", f"{waits}；{holds}")
