"""What makes jobs slow, to be shown: a starved loader, a rank that all others wait for, one that nothing slows down; two ranks or 300."""

from __future__ import annotations

from render_scenes_checkpoints import JOB

from jupyter_traindbg.model import Finding, Frame, Slow, SlowCause, SlowLine, SlowRank, rank_subjects

__all__ = ["hung", "late_rank", "nothing_slow", "starved"]

STEP, LOADS = Frame(f"{JOB}/train.py", 88, "Trainer.step"), Frame(f"{JOB}/train.py", 61, "Trainer.epoch")
READS, SCALES = Frame(f"{JOB}/data.py", 33, "Text.__getitem__"), Frame(f"{JOB}/model.py", 12, "Scale.backward")
LOOKED_AT = (
    "data: 1% of a step (1 ms) is waiting for it",
    "garbage collection: 0 full ones in 2.05 s, 0 s in all",
    "synchronisation: on a CPU it costs nothing",
)


def rank(number: int, *, data_s: float = 0.001, backward_s: float = 0.03, waits_s: float = 0.0) -> SlowRank:
    """The rest is the same on all of them."""
    forward_s, optimizer_s, rest_s = 0.015 + 0.0001 * (number % 5), 0.003, 0.001
    lines = (SlowLine(STEP, "backward", backward_s, 0.05), SlowLine(LOADS, "data", data_s, 0.98))
    whole = data_s + forward_s + backward_s + optimizer_s + waits_s + rest_s
    parts = (data_s, forward_s, backward_s, optimizer_s, waits_s, rest_s)
    return SlowRank(number, 1000 + number, 21, whole, *parts, looks=190, lines=lines)


def starved(ranks: int) -> Slow:
    """Each waits for its workers."""
    finding = Finding(
        "data_wait",
        "warning",
        "38% of a step is waiting for data: 30.1 ms of 79.1 ms",
        rank_subjects(range(ranks)),
        f"{JOB}/data.py:33 Text.__getitem__",
        [
            "rank 0: a batch takes a worker 158 ms, most of it at data.py:33 Text.__getitem__; 2 of them deliver one every 79 ms"
        ],
        "Its workers make fewer batches than the steps use up.",
        ["num_workers=4 would keep up, by these figures."],
    )
    pauses = Finding(
        "full_collections",
        "warning",
        "The program asks for full garbage collections: 12% of a step (9.4 ms)",
        rank_subjects(range(ranks)),
        f"{JOB}/train.py:97 Trainer.step",
        ["rank 0: 21 in 21 steps, 9.4 ms each"],
        "gc.collect() looks through all objects of the process, and frees no memory that is not held by a cycle.",
        ["Take it out of the loop (train.py:97 Trainer.step), or do it every some hundred steps."],
    )
    causes = (SlowCause(finding, 0.0301, 0.381), SlowCause(pauses, 0.0094, 0.119))
    return Slow(tuple(rank(n, data_s=0.03) for n in range(ranks)), (), causes, LOOKED_AT, 2.05, 3.4)


def late_rank(ranks: int, late: int = 1) -> Slow:
    """All others wait for one, and by the clock all take as long."""
    finding = Finding(
        "straggler",
        "warning",
        f"All others wait for rank {late}, which is slower in backward: 80% of a step (200 ms)",
        rank_subjects([late]),
        f"{JOB}/model.py:12 Scale.backward",
        [
            f"rank {late} is 231 ms of a step in backward, the others 31 ms",
            "by the clock steps take 249 ms to 251 ms on all ranks",
        ],
        "Every step takes as long as the slowest rank, so that all of them look equally slow by the clock.",
        [f"See what rank {late} alone does at model.py:12 Scale.backward: `%stacks` shows it beside the others."],
    )
    told = [rank(n, backward_s=0.23 if n == late else 0.03, waits_s=0.0 if n == late else 0.2) for n in range(ranks)]
    return Slow(tuple(told), (), (SlowCause(finding, 0.2, 0.8),), LOOKED_AT, 5.2, 6.4)


def nothing_slow(ranks: int) -> Slow:
    return Slow(tuple(rank(n) for n in range(ranks)), (), (), LOOKED_AT, 2.05, 3.4)


def hung(ranks: int) -> Slow:
    """None makes a step."""
    still = [
        SlowRank(n, 1000 + n, 0, None, looks=500, lines=(SlowLine(STEP, "backward", 9.9, 1.0),)) for n in range(ranks)
    ]
    return Slow(tuple(still), window_s=10.0, taken_s=12.1)
