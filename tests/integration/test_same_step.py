"""Ranks whose agents came at different steps are compared at the same one, by the optimizers' own counts."""

from __future__ import annotations

import time

import pytest
from support import Start, torchrun

import traindbg
from jupyter_traindbg import cli
from jupyter_traindbg.attach.discover import launcher_ranks
from jupyter_traindbg.job import Job

AHEAD = 12
"""So many steps more than of the other rank are known of rank 0 since its attach."""
PATIENT_S = 60.0


def steps_of(job: Job, least: int) -> None:
    """Wait until the agent of the first rank has seen so many steps."""
    ends = time.monotonic() + PATIENT_S
    while len(job.steps().ranks[0].steps) < least:
        assert time.monotonic() < ends
        time.sleep(0.02)


def test_ranks_that_were_attached_to_at_different_steps(
    start: Start, free_port: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program = start("sharded.py", "--sleep", "0.02", command=torchrun(2, free_port), timeout_s=90)
    pids = {rank.rank: rank.pid for rank in launcher_ranks(program.pid)}
    with traindbg.attach(pids[0]) as alone:
        steps_of(alone, AHEAD)
        with traindbg.attach(f"torchrun:{program.pid}") as job:
            steps_of(job, AHEAD + 8)
            steps = job.steps()
            first, second = (rank.steps[-1] for rank in steps.ranks)
            assert first.step >= second.step + AHEAD - 2, "since their attaches"
            assert first.optimizer_step is not None
            assert second.optimizer_step is not None
            said = str(steps)
            assert "behind" not in said
            assert "slowest" not in said
            for _ in range(3):
                grads = job.grads()
                assert grads.same_step is True
                one, other = grads.ranks
                assert one.safe_point
                assert one.optimizer_step == other.optimizer_step
                assert isinstance(one.after_step, int)
                assert isinstance(other.after_step, int)
                assert one.after_step >= other.after_step + AHEAD - 2
                norms = [[g.norm for g in rank.grads] for rank in grads.ranks]
                assert norms[0] == pytest.approx(norms[1]), "DDP has reduced them: they are the same"
            since = f"{other.after_step} to {one.after_step} since the attach"
            assert f"after step {one.optimizer_step:,} ({since})" in str(grads)
            assert "not compared" not in str(grads)
            assert cli.main(["grads", f"torchrun:{program.pid}"]) == 0
            assert "not compared" not in capsys.readouterr().out
