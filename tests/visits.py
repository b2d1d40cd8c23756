"""Visits to real trainings: everything that can be asked, and what the programs print, to compare with."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from support import HAS_DUCKDB, Program

import traindbg


def losses_of(program: Program, *, by_rank: bool = False) -> dict[str, float]:
    """The losses that the program printed, by ``"STEP"`` or ``"RANK STEP"``."""
    pattern = r"^(\d+ \d+) (-?0x\S+)$" if by_rank else r"^(\d+) (-?0x\S+)$"
    return {key: float.fromhex(loss) for key, loss in re.findall(pattern, program.output(), re.MULTILINE)}


def ask_everything(job: traindbg.Job) -> None:
    """Run every probe once on ranks of train.py and check that each gave a real answer."""
    for stacks in job.stacks().processes:
        assert stacks.threads, stacks
    for rank in job.grads().ranks:
        assert [g.name for g in rank.grads][:2] == ["0.weight", "0.bias"]
        assert rank.safe_point
        assert isinstance(rank.total_norm, float)
        assert rank.total_norm > 0
    for lr in job.lr().ranks:
        (optimizer,) = lr.optimizers
        assert optimizer.optimizer == "AdamW"
        assert optimizer.scheduler == "CosineAnnealingLR"
    for memory in job.memory().ranks:
        assert memory.rss_bytes > 50e6
        (cpu,) = memory.shares
        assert cpu.optimizer_bytes >= 2 * cpu.parameters_bytes
    deadline = time.monotonic() + 30
    while min(len(steps.steps) for steps in job.steps(last=3).ranks) < 3:
        assert time.monotonic() < deadline
    assert all(steps.steps[-1].loss is not None for steps in job.steps(last=3).ranks)


QUICK = ("batches", "modules", "objects", "param_groups", "ranks", "steps")
"""Tables that put something into the training thread, or cost next to nothing."""


def visit(target: int | str, asked: Sequence[str] = QUICK) -> None:
    """All questions, and the tables `asked`, several times, with a detach and a second attach in between."""
    for again in (False, True):
        with traindbg.attach(target) as job:
            for _ in range(3):
                job.stacks()
                job.steps(last=2)
                assert all(r.safe_point for r in job.grads(detail=True).ranks)
                assert not job.lr().silent
                job.memory()
            if again:  # takes two seconds
                assert all(rank.steps == 3 for rank in job.profile(steps=3).ranks)
            else:  # takes the time of a hundred steps
                assert all(rank.look and rank.look.looked for rank in job.memory(growth=True).ranks)
            for of in ("loss", "lr", "grads", "memory"):
                assert job.plot(of).words
            assert job.threads(timeout=2).processes[0].locks is True
            assert job.slow(steps=2, seconds=0.5).ranks[0].looks > 0
            if HAS_DUCKDB:
                counts = ", ".join(f"(select count(*) from {table})" for table in asked)
                watched, *_ = job.sql(f"select (select max(steps_watched) from modules), {counts}").rows[0]
                assert watched > 0
            first = job.grads(first_nan=True).ranks[0].first
            assert first is not None
            assert first.modules_seen > 0
            assert first.note == ""
            assert job.detach() > 0
