"""What several hosts answered, as one result."""

from __future__ import annotations

import dataclasses

from hang_evidence import ended, job, waiting

from jupyter_traindbg.model import (
    Detached,
    Environ,
    EnvironRow,
    EnvironValue,
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
    finding = Finding("unused", "info", "read by nobody")
    row = EnvironRow("NCCL_DEBUG", (EnvironValue("INFO", (0,)),), "real", "NCCL", "how much it logs")
    other = EnvironRow("NCCL_DEBUG", (EnvironValue("WARN", (1,)),), "real", "NCCL", "how much it logs")
    both = merged([Environ("ray:x", (0,), (row,), (finding,)), Environ("ray:x", (1,), (other,), (finding,))])
    assert both.findings == (finding,)
    assert both.ranks == (0, 1)
    (one,) = both.rows
    assert [(v.value, v.ranks) for v in one.values] == [("INFO", (0,)), ("WARN", (1,))]
    assert merged([Detached("ray:x", 2), Detached("ray:x", 3)]).processes == 5


def test_what_is_known_by_a_pid_is_left_out_where_two_hosts_have_it() -> None:
    """Of a holder of a lock that is told by the number of a process alone, nobody could say on which host it is."""
    here, there = (dataclasses.replace(waiting(rank), pid=9) for rank in (0, 1))
    apart = dataclasses.replace(waiting(2), pid=11)
    holders = {9: LockHolder(7, "python a.py"), 11: LockHolder(8, "python b.py")}
    first = dataclasses.replace(job(here, apart), lock_holders=holders)
    assert one_job([first]).lock_holders == holders
    both = one_job([first, job(there)])
    assert both.lock_holders == {11: LockHolder(8, "python b.py")}
    assert [rank.rank for rank in both.ranks] == [0, 1, 2]


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
