"""Judging what was seen once: who waits for whom is told, less surely, and never that the job is stuck or healthy; and logs beside it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from cases import each
from hang_evidence import ALL_REDUCE, BACKWARD, MAIN, TORCH, TRAIN, thread, user

from jupyter_traindbg.diagnose import incident, running
from jupyter_traindbg.diagnose.incident import Told
from jupyter_traindbg.model import (
    Finding,
    Frame,
    JobEvidence,
    Look,
    NotAvailable,
    ProcessStacks,
    RankEvidence,
    Wait,
    rank_subjects,
)

WAITS = Wait("collective", "all_reduce")
BARRIER = (
    Frame(f"{TORCH}/distributed/distributed_c10d.py", 4810, "barrier", library=True),
    Frame(TRAIN, 60, "evaluate"),
    MAIN,
)
ONCE = NotAvailable("each was seen once")


def rank(number: int, *stacks: Any, world: int = 4) -> RankEvidence:
    looks = tuple(
        Look(float(i), (ProcessStacks(number, 4000 + number, "rank", "py-spy", (one,)),))
        for i, one in enumerate(stacks)
    )
    nothing = NotAvailable("a dump does not tell")
    return RankEvidence(
        number,
        world,
        number,
        4000 + number,
        "",
        looks or (Look(0.0, ()),),
        nothing,
        problem="only its stacks are known",
    )


def job(*ranks: RankEvidence, once: bool = True) -> JobEvidence:
    return JobEvidence("dumps", ranks, len(ranks), motion_shows=ONCE if once else True)


def waiting(number: int, looks: int = 1) -> RankEvidence:
    return rank(number, *[thread(ALL_REDUCE, WAITS)] * looks)


def test_one_look_tells_who_holds_the_others_up_and_not_that_the_job_is_stuck() -> None:
    asleep = thread(user(20, "prepare"), Wait("sleep"))
    diagnosis = running.diagnose(job(waiting(0), rank(1, asleep), waiting(2), waiting(3)))
    (finding,) = diagnosis.findings
    assert (finding.code, finding.ranks, finding.confidence) == ("python_wait", (1,), "medium")
    assert diagnosis.state == "not known"
    assert diagnosis.undecided is None, "there is a finding"
    twice = job(waiting(0, 2), rank(1, asleep, asleep), waiting(2, 2), waiting(3, 2), once=False)
    diagnosis = running.diagnose(twice)
    assert (diagnosis.state, diagnosis.findings[0].confidence) == ("stuck", "high")


def test_who_computed_at_the_only_look_is_not_said_to_get_on() -> None:
    computes = thread(user(20, "prepare"))
    diagnosis = running.diagnose(job(waiting(0), rank(1, computes), waiting(2)))
    (finding,) = diagnosis.findings
    assert finding.code == "cpu_phase"
    assert "gets on" not in finding.title
    assert diagnosis.state == "not known"


def test_what_nobody_knows_to_run_or_to_wait_is_called_so() -> None:
    open_still = dataclasses.replace(thread(user(20, "prepare")), state=NotAvailable("the dump does not say"))
    diagnosis = running.diagnose(job(waiting(0), rank(1, open_still), waiting(2)))
    (finding,) = diagnosis.findings
    assert "computes or waits" in finding.title
    assert finding.confidence == "low"


def test_a_job_that_waits_nowhere_is_not_called_healthy() -> None:
    diagnosis = running.diagnose(job(rank(0, thread(user(20, "forward"))), rank(1, thread(user(21, "forward")))))
    assert (diagnosis.state, list(diagnosis.findings)) == ("not known", [])
    assert diagnosis.undecided is not None


def test_a_rank_of_which_no_dump_was_sent_is_who_the_others_wait_for() -> None:
    diagnosis = running.diagnose(job(waiting(0), waiting(1), rank(2), waiting(3)))
    (finding,) = diagnosis.findings
    assert (finding.code, finding.ranks) == ("hang_unexplained", (2,))
    assert diagnosis.ranks[2].state == "not known"


def test_ranks_in_different_calls_without_records() -> None:
    odd = rank(1, thread(BARRIER, Wait("collective", "barrier")))
    (finding,) = running.diagnose(job(waiting(0), odd, waiting(2), waiting(3))).findings
    assert (finding.code, finding.ranks, finding.where) == ("collective_mismatch", (1,), f"{TRAIN}:60 evaluate")
    assert finding.confidence == "low"
    even = [rank(2, odd.looks[0].processes[0].threads[0]), rank(3, odd.looks[0].processes[0].threads[0])]
    (finding,) = running.diagnose(job(waiting(0), waiting(1), *even)).findings
    assert finding.ranks == (0, 1, 2, 3), "nothing says which half is right"
    backward = [rank(n, thread(BACKWARD, Wait("backward"))) for n in range(3)]
    (finding,) = running.diagnose(job(*backward, rank(3, thread(BARRIER, Wait("collective", "barrier"))))).findings
    assert finding.ranks == (3,)


# --- stacks and logs together


def finding(code: str, *ranks: int, severity: Any = "critical") -> Finding:
    return Finding(code, severity, f"{code} it is", rank_subjects(ranks))


def told(*found: Finding, by: str = "x") -> list[Told]:
    return [Told(f, [by]) for f in found]


@each(
    "stacks, log, expected",
    [
        (["python_wait"], ["nccl_timeout"], ["python_wait"]),
        (["hang_unexplained"], ["rank_desync"], ["rank_desync"]),
        (["hang_unexplained"], ["cuda_oom"], ["cuda_oom"]),
        (["python_wait"], ["cuda_oom"], ["cuda_oom", "python_wait"]),
        (["rank_ended"], ["cuda_oom"], ["cuda_oom"]),
        ([], ["nccl_timeout"], ["nccl_timeout"]),
        (["python_wait"], [], ["python_wait"]),
        ([], [], []),
    ],
)
def test_the_root_comes_first_and_its_consequences_are_its_evidence(
    stacks: list[str], log: list[str], expected: list[str]
) -> None:
    found = incident.merged(told(*map(finding, stacks), by="rank1.txt"), told(*map(finding, log), by="train.log"))
    assert [f.code for f in found] == expected
    said = " ".join(words for f in found for words in f.evidence)
    assert all(
        file in said
        for file, codes in (("rank1.txt", stacks), ("train.log", log))
        if codes and "rank_ended" not in codes
    )


def test_a_warning_of_a_log_comes_last() -> None:
    found = incident.merged(told(finding("cpu_phase", 1)), told(finding("slow_training", severity="warning")))
    assert [f.code for f in found] == ["cpu_phase", "slow_training"]


@pytest.mark.parametrize(
    ("seen", "codes", "state"),
    [("not known", [], "not known"), ("not known", ["nccl_timeout"], "stuck"), ("stuck", ["cuda_oom"], "failed")],
)
def test_what_the_job_is_called(seen: Any, codes: list[str], state: str) -> None:
    assert incident.state(seen, told(finding("python_wait", 1)), told(*map(finding, codes))) == state
