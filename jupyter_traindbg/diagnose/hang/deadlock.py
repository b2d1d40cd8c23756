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
    named = text(" and ", " 和 ").join(names)
    title = text(
        f"Deadlock inside rank {rank}: {named} wait for each other's locks",
        f"rank {rank} 内部死锁：{named} 互相等待对方的锁",
    )
    cause = text(
        "Locks are taken in different orders, each thread holding what the other needs: this never ends by itself.",
        "各线程以不同顺序获取锁，彼此持有对方所需的锁：不会自行结束。",
    )
    mend = text(
        "Take these locks in one order everywhere, or use one lock.", "在所有位置按同一顺序获取这些锁，或只用一个锁。"
    )
    if alone:
        title = text(
            f"Deadlock inside rank {rank}: {named} waits for a lock that it holds itself",
            f"rank {rank} 内部死锁：{named} 等待自己已持有的锁",
        )
        cause = text(
            "threading.Lock cannot be taken twice by the same thread: this never ends by itself.",
            "threading.Lock 不能被同一线程获取两次：不会自行结束。",
        )
        mend = text(
            "Use threading.RLock, or do not take the lock again further in.",
            "使用 threading.RLock，或在内层不要再次获取该锁。",
        )
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
