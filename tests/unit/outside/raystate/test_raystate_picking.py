"""Which job is meant."""

from __future__ import annotations

import pytest

from jupyter_traindbg.errors import AmbiguousTarget, NoTarget
from jupyter_traindbg.model import RayCluster, RayJobInfo
from jupyter_traindbg.outside.raystate import pick_job


def job(job_id: str | None, submission_id: str | None = None, status: str = "RUNNING") -> RayJobInfo:
    return RayJobInfo(job_id, submission_id, status, "python train.py", 1, None, "")


def cluster(*jobs: RayJobInfo) -> RayCluster:
    return RayCluster("a:1", "", "2.60.0", 0.0, 0.0, "state API", jobs=jobs)


def test_the_only_one_that_runs_is_meant() -> None:
    running = job("03000000")
    assert pick_job(cluster(job("01000000", status="SUCCEEDED"), running)) is running


def test_several_are_listed() -> None:
    with pytest.raises(
        AmbiguousTarget, match=r"2 jobs run in this cluster: 01000000 \(running: python train.py\), sub_b \(pending"
    ):
        pick_job(cluster(job("01000000"), job(None, "sub_b", "PENDING")))


def test_none_says_which_ended() -> None:
    with pytest.raises(NoTarget, match=r"no job runs in this cluster; those that ended are sub_a \(failed"):
        pick_job(cluster(job("01000000", "sub_a", "FAILED")))
    with pytest.raises(NoTarget, match="no job runs in this cluster; start the job"):
        pick_job(cluster())


def test_a_job_goes_by_either_id_and_by_the_beginning_of_one() -> None:
    a, b = job("01000000", "raysubmit_abc"), job("02000000", "raysubmit_xyz", "SUCCEEDED")
    assert pick_job(cluster(a, b), "01000000") is a
    assert pick_job(cluster(a, b), "raysubmit_xyz") is b
    assert pick_job(cluster(a, b), "raysubmit_x") is b
    assert pick_job(cluster(a, b), "raysubmit") is a, "the one that runs"
    with pytest.raises(NoTarget, match="no job 77 in this cluster; its jobs are raysubmit_abc"):
        pick_job(cluster(a, b), "77")
    with pytest.raises(AmbiguousTarget, match="names 2 jobs"):
        pick_job(cluster(a, job("02000000", "raysubmit_abd")), "raysubmit_ab")
