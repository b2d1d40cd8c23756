"""Several ranks: each by its name, a change at the same step of all or of none, and the one that is to blame."""

from __future__ import annotations

import os
import signal
import time

import pytest
from support import Program, Start, torchrun
from traces import footprint
from visits import ask_everything, losses_of

import traindbg
from jupyter_traindbg.errors import ActionRefused
from jupyter_traindbg.model import available

PINNED = 2.5e-3


def test_torchrun_ranks_each_by_name(start: Start, free_port: str) -> None:
    program = start("train.py", "--sleep", "0.005", command=torchrun(2, free_port), timeout_s=90)
    with traindbg.attach(f"torchrun:{program.pid}") as job:
        assert [(r.rank, r.world_size, r.agent) for r in job.ranks] == [(0, 2, True), (1, 2, True)]
        ask_everything(job)
        assert {p.rank for p in job.stacks().processes} == {0, 1}


def test_a_change_takes_effect_at_one_step_of_both_ranks_and_is_taken_back(two_ranks: Program) -> None:
    with traindbg.attach(f"torchrun:{two_ranks.pid}") as job:
        pids = [rank.pid for rank in job.ranks]
        changed = job.set_lr(PINNED)
        assert [rank.state for rank in changed.ranks] == ["verified", "verified"], changed.to_dict()
        (step,) = {rank.optimizer_step for rank in changed.ranks}
        assert available(step)
        for rank in job.steps().ranks:
            used = {s.optimizer_step: s.lr[0] for s in rank.steps}
            assert used[step] == PINNED, "from that step on"
            assert used.get(step - 1, 0.0) != PINNED, "and not before"
        assert {g.action for g in job.release().ranks[1].groups} == {"released"}
        assert [rank.in_force for rank in job.lr().ranks] == [(), ()]
        assert job.detach() == 2
    for pid in pids:
        deadline = time.monotonic() + 10
        while footprint(pid).directory:
            assert time.monotonic() < deadline, "an agent is left"


def test_with_a_live_change_they_print_what_code_that_has_it_prints(start: Start) -> None:
    words = ["--steps", "200", "--sleep", "0.01"]
    live = start("tuned.py", *words)
    with traindbg.attach(f"torchrun:{live.pid}") as job:
        (step,) = {rank.optimizer_step for rank in job.set_lr(PINNED).ranks}
    written = start("tuned.py", *words[:2], "--lr-at", str(step), str(PINNED), ready=None)
    assert live.wait(90) == written.wait(90) == 0
    assert len(losses_of(live, by_rank=True)) == 2 * 200
    assert losses_of(live, by_rank=True) == losses_of(written, by_rank=True)


def test_a_stopped_rank_is_named_and_nothing_changes(two_ranks: Program) -> None:
    with traindbg.attach(f"torchrun:{two_ranks.pid}") as job:
        before = [len(rank.log) for rank in job.lr().ranks]
        stopped = job.ranks[1].pid
        os.kill(stopped, signal.SIGSTOP)
        try:
            with pytest.raises(ActionRefused, match=rf"rank 1 \(pid {stopped}\) cannot take part: it is stopped"):
                job.set_lr(PINNED, timeout=4)
        finally:
            os.kill(stopped, signal.SIGCONT)
        assert [len(rank.log) for rank in job.lr().ranks] == before
