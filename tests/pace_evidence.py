"""When ranks issue their calls, and where they stand in their loops, made by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jupyter_traindbg.model import (
    Activity,
    Block,
    Frame,
    Look,
    Pace,
    ProcessStacks,
    RankEvidence,
    Thread,
    ThreadActivity,
    Wait,
)

FILE = "/home/ada/train.py"
C10D = "/opt/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
EPOCHS, BATCHES = Block("for", 20, 40, "epoch in range(3)"), Block("for", 22, 30, "batch in loader")


def times(
    work: Callable[[int, int], float], ranks: int = 4, rounds: int = 60, start: float = 1e9
) -> dict[int, dict[int, float]]:
    """When each rank issues each call, if it works ``work(rank, round)`` between two and all wait for the last."""
    met, issued = start, {rank: {0: start} for rank in range(ranks)}
    for n in range(1, rounds + 1):
        for rank in range(ranks):
            issued[rank][n] = met + work(rank, n)
        met = max(of[n] for of in issued.values()) + 0.001
    return issued


def waits(operation: str, *user: tuple[int, str]) -> tuple[Frame, ...]:
    return (Frame(C10D, 3000, operation, True), *(Frame(FILE, line, function) for line, function in user))


IN_EPOCH = waits("all_reduce", (60, "train_step"), (24, "main"))
BEHIND = waits("barrier", (33, "main"))


def standing(
    n: int, frames: Sequence[Frame], steps: int | None = None, words: Wait = Wait("collective", "all_reduce")
) -> RankEvidence:
    pid = 100 + n
    thread = Thread("MainThread", pid, "waiting", tuple(frames), words, training=True)
    look = (ProcessStacks(n, pid, "rank", "agent", (thread,)),)
    still = ThreadActivity(pid, "python", "S", 0.0, 0, call="futex")
    counted: dict[str, Any] = {} if steps is None else {"pace": Pace(steps, steps, 60.0, 0.03)}
    activity = Activity(pid, "rank", "python train.py", 1.5, "S", 0.0, (still,))
    return RankEvidence(n, 4, n, pid, "here", looks=(Look(0.0, look), Look(1.5, look)), activity=activity, **counted)
