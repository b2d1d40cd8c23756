"""Going on from a checkpoint of a job whose loader has worker processes, which are forked; without: tests/unit/test_resume.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from resumable_jobs import (
    WORKERS,
    Job,
    Still,
    interrupted,
    interrupted_with_a_late_agent,
    resumed_losses,
    skipping_indices,
)
from torch.utils.data import DataLoader

from jupyter_traindbg.agent.core import Agent

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.mark.parametrize("hung_at", [13, 10, 9, 1, 29])
def test_a_hung_job_goes_on_with_the_very_same_losses(agent: Agent, tmp_path: Path, hung_at: int) -> None:
    """In the middle of an epoch, and at either end of one."""
    losses = interrupted(agent, Job(WORKERS), tmp_path / "ckpt", hung_at=hung_at)
    agent.stop()
    after, resumed = resumed_losses(tmp_path / "ckpt", Job(WORKERS, seed=9))
    assert after == losses[hung_at:]
    assert resumed.notes == []
    assert (resumed.step, resumed.epoch) == (hung_at, (hung_at - 1) // 10)


@pytest.mark.parametrize("hung_at", [4, 13])
def test_persistent_workers_are_exact_but_for_what_they_draw(agent: Agent, tmp_path: Path, hung_at: int) -> None:
    def job(seed: int) -> Job:
        made = Job(seed=seed)
        made.loader = DataLoader(Still(), batch_size=4, shuffle=True, num_workers=1, persistent_workers=True)
        return made

    losses = interrupted(agent, job(0), tmp_path / "ckpt", hung_at=hung_at)
    agent.stop()
    after, resumed = resumed_losses(tmp_path / "ckpt", job(9))
    assert after == losses[hung_at:]
    assert ["persistent" in n for n in resumed.notes] == [True] * (hung_at > 10)


def test_an_agent_that_came_in_the_middle_of_an_epoch(tmp_path: Path) -> None:
    """It reads the order off the running iterator, and the workers' seed."""
    losses = interrupted_with_a_late_agent(Job(WORKERS), tmp_path)
    after, resumed = resumed_losses(tmp_path / "ckpt", Job(WORKERS, seed=9))
    assert resumed.notes == []
    assert after == losses[7:]


def test_skipping_indices_loads_nothing(agent: Agent, tmp_path: Path) -> None:
    loaded_here = skipping_indices(agent, tmp_path / "ckpt", workers=1)
    assert loaded_here == 0, "workers count in processes of their own"
