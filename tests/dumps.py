"""Dumps of stacks as py-spy prints them, of ranks that stand where a test wants them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = [
    "ALL_REDUCE",
    "BACKWARD",
    "BARRIER",
    "FORWARD",
    "NEW_GROUP",
    "SLEEPS",
    "joining",
    "making",
    "py_spy",
    "write",
]

MAIN = ("main (train.py:90)", "<module> (train.py:99)")
ALL_REDUCE = (
    "all_reduce (torch/distributed/distributed_c10d.py:3100)",
    "wrapper (torch/distributed/c10d_logger.py:81)",
    "train_step (train.py:42)",
    *MAIN,
)
BARRIER = ("barrier (torch/distributed/distributed_c10d.py:4810)", "evaluate (train.py:60)", *MAIN)
BACKWARD = ("_engine_run_backward (torch/autograd/graph.py:824)", "train_step (train.py:40)", *MAIN)
SLEEPS = ("Condition.wait (threading.py:327)", "Queue.get (queue.py:171)", "next_batch (data.py:17)", *MAIN)
NEW_GROUP = (
    "_new_process_group_helper (torch/distributed/distributed_c10d.py:2169)",
    "_new_group_with_tag (torch/distributed/distributed_c10d.py:6056)",
    "new_group (torch/distributed/distributed_c10d.py:5863)",
    "make_groups (train.py:30)",
    *MAIN,
)
FORWARD = ("Linear.forward (torch/nn/modules/linear.py:125)", "prepare (train.py:20)", *MAIN)


def py_spy(
    pid: int,
    frames: Sequence[str],
    *,
    state: str = "idle",
    command: str = "/opt/venv/bin/python -u train.py",
    others: Sequence[tuple[str, Sequence[str]]] = (),
) -> str:
    """``others``: more threads, by name."""
    head = f"Process {pid}: {command}\nPython v3.11.7 (/nowhere/bin/python3.11)\n\n"
    threads = [
        (pid, state, "MainThread", frames),
        *((pid + i, "idle", name, f) for i, (name, f) in enumerate(others, 1)),
    ]
    return head + "".join(
        f'Thread {tid} ({how}): "{name}"\n' + "".join(f"    {frame}\n" for frame in stack)
        for tid, how, name, stack in threads
    )


def making(name: str, ranks: Sequence[int]) -> tuple[str, ...]:
    """The frames of one that makes this process group, with their locals."""
    shown = f'\n        Arguments:\n            {{}}: {list(ranks)}\n        Locals:\n            group_name: "{name}"'
    inner, with_tag, *rest = NEW_GROUP
    return (inner + shown.format("global_ranks_in_group"), with_tag + shown.format("ranks"), *rest)


def joining(rank: int, world_size: int, *, port: int | None = None) -> tuple[str, ...]:
    """The frames of one in ``init_process_group``, with their locals: at the store with this port, or past it."""
    init = "init_process_group (torch/distributed/distributed_c10d.py:1892)\n        Arguments:\n            "
    if port is None:
        inner, told = NEW_GROUP[0], f'backend: "gloo"\n            world_size: {world_size}\n            rank: {rank}'
    else:
        inner = (
            "_create_c10d_store (torch/distributed/rendezvous.py:190)\n        Arguments:\n"
            f'            hostname: "10.0.0.1"\n            port: {port}\n            rank: {rank}\n            world_size: {world_size}'
        )
        told = 'backend: "gloo"\n            world_size: -1\n            rank: -1'
    return (inner, init + told, *MAIN)


def write(directory: Path, stacks: Sequence[Sequence[str]], *, name: str = "rank{}.txt") -> list[str]:
    """One file a rank; the paths."""
    paths = []
    for rank, frames in enumerate(stacks):
        path = directory / name.format(rank)
        path.write_text(py_spy(4000 + rank, frames))
        paths.append(str(path))
    return paths
