"""A rank that waits for its GPU: told from one that computes, and a finding only where the job's own history says that it is too long."""

from __future__ import annotations

import dataclasses

import pytest
from hang_evidence import job, rank, records, source, thread, user, waiting

from jupyter_traindbg.diagnose import running
from jupyter_traindbg.diagnose.hang.again import over_time
from jupyter_traindbg.model import Pace, RankEvidence

READS = source(85, "loss = total.item()")
QUICK = (0.2,) * 9
HISTORY = Pace(100, 100, 30.0, 0.2, QUICK, gpu_busy=True)


def at_the_gpu(number: int, pace: Pace = HISTORY) -> RankEvidence:
    """It spins at one line."""
    return rank(number, [thread(user(85, "train"))], cpu=1.0, pace=pace)


def test_longer_than_ever_before() -> None:
    seen = running.diagnose(job(at_the_gpu(0), sources=READS))
    assert seen.state == "stuck"
    (finding,) = seen.findings
    assert (finding.code, finding.severity, tuple(finding.who)) == ("gpu_wait", "critical", ("rank 0",))
    assert finding.where == "/home/ada/train.py:85 train"
    assert "`loss = total.item()`" in finding.evidence[0]
    assert "waiting for the GPU at every look" in seen.why[0]
    assert seen.ranks[0].doing == "waits for the GPU"


@pytest.mark.parametrize(
    ("pace", "state"),
    [
        (Pace(100, 100, 3.0, 3.0, (3.0,) * 9, gpu_busy=True), "progressing"),
        (Pace(0, None, None, None, gpu_busy=True), "not known"),
        (dataclasses.replace(HISTORY, gpu_busy=False), "progressing"),
        (dataclasses.replace(HISTORY, steps_in_window=2), "healthy"),
    ],
    ids=["long steps are usual", "nobody was there before", "it computes on the CPU", "it steps"],
)
def test_where_nothing_shows_that_it_hangs(pace: Pace, state: str) -> None:
    seen = running.diagnose(job(at_the_gpu(0, pace), sources=READS))
    assert (seen.findings, seen.state) == ((), state)


def test_without_a_history_a_second_look_is_taken() -> None:
    fresh = Pace(0, None, None, None, gpu_busy=True)
    first = job(at_the_gpu(0, fresh))
    assert running.settles_in_s(first) is not None
    done = job(at_the_gpu(0, dataclasses.replace(fresh, gpu_busy=False)))
    seen = running.diagnose(over_time(first, done, later_s=5.0))
    assert seen.ranks[0].doing == "computes"


def test_others_wait_for_it() -> None:
    seen = running.diagnose(job(at_the_gpu(0), waiting(1), waiting(2), waiting(3), sources=READS))
    (finding,) = seen.findings
    assert (finding.code, tuple(finding.who)) == ("gpu_wait", ("rank 0",))
    assert any("ranks 1-3 wait in all_reduce" in line for line in finding.evidence)


def test_a_rank_that_waits_at_its_gpu_for_a_call_that_ended_on_the_others() -> None:
    """They are through with #20 and wait in #21, which rank 2 cannot come to."""
    late = dataclasses.replace(at_the_gpu(2), collectives=records(2, issued=19, waits="all_reduce"))
    others = [waiting(number, pace=HISTORY) for number in (0, 1, 3)]
    seen = running.diagnose(job(*others, late, sources=READS))
    assert seen.state == "stuck"
    (finding,) = seen.findings
    assert (finding.code, finding.who, finding.where) == (
        "collective_unfinished",
        ["rank 2"],
        "/home/ada/train.py:85 train",
    )
    assert any("all_reduce #20 of the default group: under way on rank 2" in line for line in finding.evidence)
