"""A host that gives no answer: it comes first where others wait for its ranks or have lost them, and is a warning where they go on."""

from __future__ import annotations

import dataclasses

from hang_evidence import ended, job, stepping, waiting

from jupyter_traindbg.diagnose import running
from jupyter_traindbg.model import Diagnosis, Look, LostHost, RankEvidence

REASON = "gamma cannot be reached: Connection timed out"
UNSEEN = RankEvidence(2, 3, 0, 9, "gamma", (Look(0.0, ()),), problem=REASON)
GLOO = "RuntimeError: [/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.77.0.3]:11914"


def on(host: str, rank: RankEvidence) -> RankEvidence:
    return dataclasses.replace(rank, host=host)


LOST = LostHost("gamma", REASON, (2,))


def diagnosed(*ranks: RankEvidence, lost: LostHost = LOST) -> Diagnosis:
    return running.diagnose(job(*ranks, world_size=3, lost_hosts=(lost,)))


def test_where_others_wait_it_is_to_blame() -> None:
    seen = diagnosed(on("alpha", waiting(0)), on("beta", waiting(1)), UNSEEN)
    assert seen.state == "stuck"
    first, *more = seen.findings
    assert (first.code, first.severity, list(first.who)) == ("host_unreachable", "critical", ["rank 2"])
    assert first.title == "Host gamma gives no answer: what rank 2 does there is not known"
    assert REASON in first.evidence
    assert "rank 2 is process 9 on gamma" in first.evidence
    assert not more, "that the others wait is its symptom"
    assert seen.ranks[2].state == "not known"
    assert seen.ranks[2].doing == REASON


def test_who_lost_a_peer_is_no_culprit() -> None:
    lost = {"exit_code": 1, "last_lines": ("Traceback (most recent call last):", f"[rank0]: {GLOO}")}
    seen = diagnosed(ended(0, **lost), ended(1, **lost), UNSEEN)
    assert seen.state == "failed"
    assert [f.code for f in seen.findings] == ["host_unreachable"]
    assert any("ranks 0, 1" in line and "lost the connection" in line for line in seen.findings[0].evidence)


def test_an_exception_of_another_rank_stands_beside_it() -> None:
    own = {"exit_code": 1, "last_lines": ("Traceback (most recent call last):", "KeyError: 'labels'")}
    assert {f.code for f in diagnosed(ended(0, **own), waiting(1), UNSEEN).findings} == {
        "host_unreachable",
        "rank_ended",
    }


def test_where_the_others_go_on_it_is_a_warning_and_the_job_is_not_called_healthy() -> None:
    seen = diagnosed(on("alpha", stepping(0)), on("beta", stepping(1)), UNSEEN)
    assert [(f.code, f.severity) for f in seen.findings] == [("host_unreachable", "warning")]
    assert seen.state == "progressing"


def test_a_host_that_was_never_reached_is_named_though_its_ranks_are_not_known() -> None:
    seen = diagnosed(stepping(0), stepping(1), lost=LostHost("gamma", REASON))
    assert list(seen.findings[0].who) in (["gamma"], ["rank 2"])
    assert "gamma" in seen.findings[0].title


def test_ranks_of_one_host_are_not_told_where_they_are() -> None:
    alone = running.diagnose(job(on("alpha", waiting(0)), on("alpha", waiting(1)), world_size=2))
    assert not any("alpha" in line for f in alone.findings for line in f.evidence)
    assert {rank.host for rank in alone.ranks} == {""}
