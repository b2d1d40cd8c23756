"""What several hosts answered, as one result."""

from __future__ import annotations

import dataclasses

from hang_evidence import ended, job, waiting

from jupyter_traindbg.model import (
    Detached,
    Finding,
    GpuReport,
    LockHolder,
    Look,
    LostHost,
    NotAvailable,
    Problem,
    ProcessStacks,
    RankEvidence,
    Silent,
    Stacks,
)
from jupyter_traindbg.spread.merging import merged, one_job


def stacks(rank: int, taken_s: float) -> Stacks:
    return Stacks((ProcessStacks(rank, 100 + rank, "rank", "agent", ()),), (), taken_s)


def test_lists_are_put_together_by_rank_and_the_longest_time_counts() -> None:
    both = merged([stacks(1, 0.5), stacks(0, 0.2)], [Silent(2, 9, "its node is gone")])
    assert [p.rank for p in both.processes] == [0, 1]
    assert both.taken_s == 0.5
    assert [s.rank for s in both.silent] == [2]


def test_one_host_alone_is_as_it_was() -> None:
    assert merged([stacks(1, 0.5)]) == stacks(1, 0.5)


def test_what_one_host_does_not_have_another_tells() -> None:
    missing = NotAvailable("no NVIDIA driver")
    finding = Finding("gpu_lost", "critical", "a GPU is lost")
    reports = [
        GpuReport((), missing, missing, Problem("no NVIDIA driver")),
        GpuReport((), "550.1", "12.4", None, verdict=(finding,)),
    ]
    both = merged(reports)
    assert (both.driver, both.cuda_driver) == ("550.1", "12.4")
    assert both.findings == (finding,)


def test_findings_that_hosts_share_are_told_once_and_counts_are_added() -> None:
    finding = Finding("gpu_idle", "info", "nobody uses it")
    both = merged([GpuReport((), "550.1", "12.4", None, verdict=(finding,))] * 2)
    assert both.findings == (finding,)
    assert merged([Detached("ray:x", 2), Detached("ray:x", 3)]).processes == 5


def test_what_is_known_by_a_pid_is_known_of_the_host_that_has_given_it() -> None:
    here, there = (dataclasses.replace(waiting(rank), pid=9, host=host) for rank, host in enumerate(("alpha", "beta")))
    first, second = LockHolder(7, "python a.py"), LockHolder(7, "python b.py")
    both = one_job([job(here, lock_holders={9: first}), job(there, lock_holders={9: second})])
    assert {host: known.lock_holders for host, known in both.beside.items()} == {
        "alpha": {9: first},
        "beta": {9: second},
    }


def test_the_ranks_of_a_host_that_gave_no_answer_are_not_known() -> None:
    unseen = RankEvidence(1, 2, 0, 9, "gamma", (Look(0.0, ()),), problem="gamma did not answer")
    made = one_job([job(waiting(0), world_size=2)], (), [LostHost("gamma", "gamma did not answer", (1,))], [unseen])
    assert [rank.pid for rank in made.ranks][1] == 9
    assert [host.name for host in made.lost_hosts] == ["gamma"]


def test_that_a_rank_has_ended_is_known_on_its_host_alone() -> None:
    """To the others it is one of many that they have no process of."""
    not_here = RankEvidence(1, 2, 0, 0, "")
    gone = dataclasses.replace(ended(1), pid=0)
    for parts in ([job(waiting(0), not_here), job(gone)], [job(gone), job(waiting(0), not_here)]):
        assert one_job(parts).ranks[1].ending is not None
