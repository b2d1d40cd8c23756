"""What is wrong with a job's threads by themselves, whether its training waits for them or not: locks that wait for each other. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..language import text
from ..model import Finding, LockWait, ProcessThreads, ThreadUse, rank_subjects

__all__ = ["findings"]


def findings(processes: Iterable[ProcessThreads]) -> list[Finding]:
    """A deadlock for each ring of threads. Their own locks tell, so there is no doubt."""
    return [_deadlock(process, ring) for process in processes for ring in process.rings]


def _deadlock(process: ProcessThreads, ring: Sequence[int]) -> Finding:
    waits = [
        (thread, thread.lock)
        for tid in ring
        for thread in process.threads
        if thread.tid == tid and thread.lock is not None
    ]
    names = text(" and ", "、").join(thread.name for thread, _ in waits)
    trains = any(thread.training for thread, _ in waits)
    alone = len(waits) == 1
    first = waits[0][1].where if waits else None
    sure = all(lock.how != "acquire" for _, lock in waits)
    return Finding(
        "thread_deadlock",
        "critical" if trains else "warning",
        _title(process, names, alone=alone),
        rank_subjects([process.rank]),
        first,
        [_wait(thread, lock) for thread, lock in waits],
        text(
            "Neither lets go before it has what the other holds: this never ends.",
            "双方都要先得到对方持有的锁才会放手：不会结束。",
        ),
        [_step(alone=alone)],
        confidence="high" if sure else "medium",
    )


def _title(process: ProcessThreads, names: str, *, alone: bool) -> str:
    rank = process.rank
    if alone:
        return text(
            f"Deadlock inside rank {rank}: {names} waits for a lock that it holds itself",
            f"rank {rank} 内部死锁：{names} 等待自己已持有的锁",
        )
    return text(
        f"Deadlock inside rank {rank}: {names} wait for each other's locks",
        f"rank {rank} 内部死锁：{names} 互相等待对方的锁",
    )


def _wait(thread: ThreadUse, lock: LockWait) -> str:
    held = lock.holder_where or "?"
    if lock.how == "acquire":
        return text(
            f"{thread.name} waits for {lock.name} at {lock.where}; {lock.holder} has acquired it at {held} and not released it",
            f"{thread.name} 在 {lock.where} 等待 {lock.name}；{lock.holder} 在 {held} 获取了它且未释放",
        )
    return text(
        f"{thread.name} waits for {lock.name} at {lock.where}; {lock.holder} holds it since {held}",
        f"{thread.name} 在 {lock.where} 等待 {lock.name}；{lock.holder} 自 {held} 起持有它",
    )


def _step(*, alone: bool) -> str:
    if alone:
        return text(
            "Use threading.RLock, or do not take the lock again further in.",
            "使用 threading.RLock，或在内层不要再次获取该锁。",
        )
    return text(
        "Take these locks in one order everywhere, or use one lock.", "在所有位置按同一顺序获取这些锁，或只用一个锁。"
    )
