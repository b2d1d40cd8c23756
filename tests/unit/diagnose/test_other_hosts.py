"""Every rank of this host waits, and the culprit is on another one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hang_evidence import TRAIN, job, stepping, stuck, user, waiting

from jupyter_traindbg.diagnose.running import diagnose
from jupyter_traindbg.model import NotAvailable, RankEvidence, RasCommunicator, RasRank, RasReport, Wait

AWAY = NotAvailable("it belongs to another host")


def away(rank: int) -> RankEvidence:
    return RankEvidence(
        rank, 4, rank - 2, 0, "", activity=AWAY, pace=AWAY, collectives=AWAY, environ=AWAY, problem=AWAY.reason
    )


def told(counts: Mapping[int, int]) -> RasReport:
    """NCCL's report: how many all_reduces each rank has issued."""
    ranks = [
        RasRank(r, f"10.0.0.{r // 2}", 100 + r, "running", {"Broadcast": 1, "AllReduce": n}) for r, n in counts.items()
    ]
    return RasReport("2.28.9", (RasCommunicator("0xa", 2, ()), RasCommunicator("0xb", 4, tuple(ranks))))


def first(*ranks: RankEvidence, **more: Any) -> Any:
    found = diagnose(job(*ranks, away(2), away(3), **more)).findings
    assert len(found) == 1, found
    return found[0]


def test_without_nccls_word_the_other_hosts_are_named_and_nobody_is_accused() -> None:
    finding = first(waiting(0), waiting(1))
    assert (finding.code, finding.confidence) == ("collective_not_issued", "low")
    assert finding.who == ("rank 2", "rank 3")
    assert "node-1" in finding.title
    assert "other hosts" in finding.cause
    assert "on each of the other hosts" in finding.next_steps[0]
    assert any("all_reduce #21" in words for words in finding.evidence)


def test_nccls_counts_name_the_rank_that_is_behind() -> None:
    finding = first(waiting(0), waiting(1), ras=told({0: 21, 1: 21, 2: 21, 3: 20}))
    assert (finding.code, tuple(finding.who)) == ("collective_not_issued", ("rank 3",))
    level = first(waiting(0), waiting(1), ras=told({0: 21, 1: 21, 2: 21, 3: 21}))
    assert level.confidence == "low", "NCCL knows no better either"


def test_a_culprit_on_this_host_is_enough() -> None:
    sleeping = stuck(1, user(12, "forgets", TRAIN), Wait("sleep"))
    finding = first(waiting(0), sleeping, ras=told({0: 21, 1: 20, 2: 21, 3: 21}))
    assert (finding.code, tuple(finding.who)) == ("python_wait", ("rank 1",))


def test_a_job_that_steps_accuses_nobody() -> None:
    evidence = job(stepping(0), stepping(1), away(2), away(3), ras=told({0: 21, 1: 21, 2: 20, 3: 21}))
    assert diagnose(evidence).findings == ()
