"""A Ray job asked by one of its processes: what is made of its diagnosis and the process's own, also where the cluster does not answer."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from cases import each

from jupyter_traindbg.attach.base import Part
from jupyter_traindbg.errors import CannotAttach, NoTarget, TraindbgError
from jupyter_traindbg.model import Diagnosis, Finding, RankState
from jupyter_traindbg.ray import of_process

DRIVER, WORKER = Part("ray:01000000@h:1", "driver"), Part("ray:01000000@h:1", "worker")
WHOLE = Diagnosis(
    "ray:01000000@h:1",
    "healthy",
    ("rank 0: up to 9 steps",),
    (RankState(0, 7, "stepping", "makes steps", who="rank 0"),),
)
OWN = Diagnosis(
    "4711", "not known", ("it waits for Ray",), (RankState(0, 4711, "waiting", "waits for a result from Ray"),)
)
LOST = Finding("lock_wait", "critical", "Rank 0 waits for a lock", ("rank 0",))


class Asked:
    """A job of one process; what it is asked, and what it says."""

    name = "4711"

    def __init__(self, own: Diagnosis | TraindbgError = OWN) -> None:
        self.own = own
        self.times = 0

    def look(self, timeout: float) -> Diagnosis:
        self.times += 1
        if isinstance(self.own, TraindbgError):
            raise self.own
        return self.own


class Whole:
    def __init__(self, answer: Diagnosis | TraindbgError, *, running: bool = True) -> None:
        self.answer, self.closed = answer, False
        self.info = type("Info", (), {"running": running})()

    def diagnose(self, *, timeout: float) -> Diagnosis:
        if isinstance(self.answer, TraindbgError):
            raise self.answer
        return self.answer

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give what the cluster answers with; whoever asks is told that, or that nobody answers."""

    def answers(whole: Whole | TraindbgError) -> None:
        def connect(target: str, timeout: float) -> Whole:
            assert target == "ray:01000000@h:1"
            if isinstance(whole, TraindbgError):
                raise whole
            return whole

        monkeypatch.setattr(of_process, "connect", connect)

    monkeypatch.setattr(of_process, "of_ranks", lambda job, timeout: job.look(timeout))
    return answers


def diagnose(job: Asked, part: Part) -> Diagnosis:
    return of_process.diagnose(job, part, 5.0)  # type: ignore[arg-type]


def test_of_a_driver_all_of_its_job_is_meant(cluster: Any) -> None:
    whole, job = Whole(WHOLE), Asked()
    cluster(whole)
    found = diagnose(job, DRIVER)
    assert (found.state, found.target, found.ranks) == ("healthy", "4711", WHOLE.ranks)
    assert found.why == ("4711 is the driver of ray:01000000@h:1: all of that job was looked at", *WHOLE.why)
    assert (job.times, whole.closed) == (1, True)


def test_a_worker_is_not_looked_at_twice(cluster: Any) -> None:
    cluster(Whole(WHOLE))
    job = Asked()
    assert diagnose(job, WORKER).why[0].startswith("4711 is a process of ray:01000000@h:1")
    assert job.times == 0


def test_a_driver_that_hangs_by_itself_is_to_blame_where_nobody_else_moves(cluster: Any) -> None:
    cluster(Whole(dataclasses.replace(WHOLE, state="idle", ranks=())))
    found = diagnose(Asked(dataclasses.replace(OWN, state="stuck", verdict=(LOST,))), DRIVER)
    assert (found.state, found.findings) == ("stuck", (LOST,))


def test_a_driver_that_cannot_be_looked_at_leaves_its_job(cluster: Any) -> None:
    cluster(Whole(WHOLE))
    assert diagnose(Asked(CannotAttach("no way in")), DRIVER).state == "healthy"


@each("part", [DRIVER, WORKER])
@each(
    "answer, why",
    [
        (NoTarget("no GCS answers at h:1"), "no GCS answers at h:1"),
        (Whole(CannotAttach("no dashboard")), "no dashboard"),
        (Whole(WHOLE, running=False), "ray:01000000@h:1 has ended"),
    ],
)
def test_where_the_job_cannot_be_asked_the_process_itself_is_what_is_known(
    cluster: Any, part: Part, answer: Any, why: str
) -> None:
    cluster(answer)
    found = diagnose(Asked(), part)
    assert (found.state, found.ranks) == ("not known", OWN.ranks)
    assert found.why == (*OWN.why, f"only this process was looked at, and not ray:01000000@h:1: {why}")


def test_where_nothing_at_all_is_known_it_says_why(cluster: Any) -> None:
    cluster(NoTarget("no GCS answers"))
    with pytest.raises(CannotAttach, match="no way in"):
        diagnose(Asked(CannotAttach("no way in")), DRIVER)
