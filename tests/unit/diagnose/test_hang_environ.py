"""Environment variables in the diagnosis of a hang: named where they break or harm, first where nothing plainer holds a rank up."""

from __future__ import annotations

from typing import Any

from hang_evidence import ended, host, job, records, stepping, stuck, user, waiting

from jupyter_traindbg.diagnose import running
from jupyter_traindbg.diagnose.hang import environ as rule
from jupyter_traindbg.diagnose.hang.case import build
from jupyter_traindbg.model import Finding, RankEvidence, Wait

BASE = {"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
DETAIL = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}


def told(number: int, **more: str) -> dict[str, Any]:
    return {"environ": {**BASE, "RANK": str(number), "LOCAL_RANK": str(number), **more}}


def judged(*ranks: RankEvidence) -> list[Finding]:
    return list(running.diagnose(job(*ranks)).findings)


def first_wait(number: int, **more: str) -> RankEvidence:
    """A rank that waits in the first collective of all."""
    return waiting(number, collectives=records(number, issued=0, waits="all_reduce"), **told(number, **more))


def test_ranks_that_disagree_never_get_through_the_first_collective() -> None:
    late = stuck(2, user(61, "wait"), Wait("sleep"), collectives=records(2, issued=0), **told(2, **DETAIL))
    first, *_ = judged(*(first_wait(n) for n in (0, 1, 3)), late)
    assert (first.code, first.severity, first.who) == ("environment", "critical", ["rank 2"])
    assert list(first.evidence[:2]) == [
        "ranks 0, 1, 3: TORCH_DISTRIBUTED_DEBUG is not set",
        "rank 2: TORCH_DISTRIBUTED_DEBUG=DETAIL",
    ]


def test_where_collectives_went_through_it_is_not_the_reason() -> None:
    ranks = [
        *(waiting(n, **told(n)) for n in (0, 1, 3)),
        stuck(2, user(61, "wait"), Wait("sleep"), **told(2, **DETAIL)),
    ]
    first, *_ = judged(*ranks)
    assert (first.code, list(first.who)) == ("python_wait", ["rank 2"])
    hits = rule.rule(build(job(*ranks)))
    assert hits
    assert {(h.finding.severity, tuple(h.ranks)) for h in hits} == {("warning", ())}


def test_a_dead_rank_comes_before_what_its_environment_says() -> None:
    ranks = [first_wait(n, **(DETAIL if n == 1 else {})) for n in (0, 1, 3)]
    first, *_ = judged(*ranks, ended(2, exit_code=1))
    assert first.code == "rank_ended"


def test_two_variables_stay_two_findings() -> None:
    odd = told(2, **DETAIL, MASTER_PORT="29501", CUDA_LAUNCH_BLOCKING="1")
    late = stuck(2, user(61, "wait"), Wait("sleep"), collectives=records(2, issued=0), **odd)
    case = build(job(*(first_wait(n) for n in (0, 1, 3)), late))
    hits = rule.rule(case)
    assert [h.finding.severity for h in hits] == ["critical", "critical", "warning", "warning"]
    assert hits[0].ranks == [2]
    assert [list(h.ranks) for h in hits[1:]] == [[], [], []]


def test_a_job_that_steps_is_none_the_worse_for_its_environment() -> None:
    assert judged(*(stepping(n, **told(n, CUDA_LAUNCH_BLOCKING="1")) for n in range(4))) == []


def test_what_does_nothing_is_not_said_of_a_hang() -> None:
    evidence = job(
        *(waiting(n, **told(n, NCCL_TIMEOUT="1800")) for n in range(4)), hosts=(host(versions={"torch": "2.13.0"}),)
    )
    assert rule.rule(build(evidence)) == []


def test_the_backend_is_that_of_the_groups() -> None:
    """The groups of `waiting` are gloo's, where NCCL's variables say nothing."""
    ranks = [waiting(n, **told(n, NCCL_IB_TIMEOUT="1800")) for n in range(4)]
    assert rule.rule(build(job(*ranks))) == []
