"""Which parts on several hosts are one job, by what each tells of itself. Pure."""

from __future__ import annotations

import dataclasses
import os

import pytest
from cases import each

from jupyter_traindbg.model import Target
from jupyter_traindbg.spread import found as module
from jupyter_traindbg.spread.found import Found, jobs, whole
from jupyter_traindbg.spread.part import Member


def part(*ranks: int, of: int = 4, address: str = "10.0.0.1", port: str = "29500", run: str = "none") -> Found:
    members = tuple(Member(100 + rank, rank, of, "", True) for rank in ranks)
    return Found("torchrun:41", "torchrun train.py", members, address, port, run)


FIRST, SECOND = part(0, 1), part(2, 3)


@each(
    "what, other, together",
    [
        ("the other half", SECOND, True),
        ("the same ranks again: another job beside it", FIRST, False),
        ("another port", part(2, 3, port="29501"), False),
        ("another number of ranks", part(2, 3, of=8), False),
        ("another run", part(2, 3, run="two"), False),
        ("another address", part(2, 3, address="10.0.0.9"), False),
        ("the host of rank 0 may call itself so", part(2, 3, address="localhost"), True),
        ("complete by itself", part(0, 1, 2, 3), False),
    ],
)
def test_parts_go_together_where_all_that_they_tell_fits(what: str, other: Found, together: bool) -> None:
    assert len(whole({"a": [FIRST], "b": [other]})) == (1 if together else 2), what


def test_a_job_has_its_parts_in_the_order_of_the_hosts_that_were_named() -> None:
    (job,) = whole({"b": [SECOND], "a": [part(0, 1, address="127.0.0.1")]})
    assert list(job) == ["b", "a"]


def test_of_two_jobs_on_the_same_hosts_each_has_its_own_parts() -> None:
    other = part(0, 1, port="29501"), part(2, 3, port="29501")
    jobs = whole({"a": [FIRST, other[0]], "b": [other[1], SECOND]})
    assert [{host: p.port for host, p in job.items()} for job in jobs] == [
        {"a": "29500", "b": "29500"},
        {"a": "29501", "b": "29501"},
    ]


def test_jobs_that_each_meet_at_their_own_host_stay_apart() -> None:
    """``torchrun --standalone`` on every host: the same port, and nothing to do with each other."""
    alone = part(0, 1, of=2, address="localhost")
    assert len(whole({"a": [alone], "b": [alone]})) == 2


def test_within_a_job_of_slurm_only_what_runs_in_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, other, loose = (
        Target(str(pid), pid, "process", "python train.py", "ada", 60.0, "torch") for pid in (11, 12, 13)
    )
    environs = {11: {"SLURM_JOB_ID": "42"}, 12: {"SLURM_JOB_ID": "43"}, 13: {}}
    monkeypatch.setattr(module, "targets", lambda: [mine, other, loose])
    monkeypatch.setattr(module.procfs, "environ", environs.__getitem__)
    monkeypatch.setattr(
        module, "_of", lambda named, timeout: Found(str(named), "", (Member(int(named.id), 0, 1, "", True),))
    )
    assert [one.name for one in jobs("", 5.0, ("42", "41"))] == ["11"]
    assert [one.name for one in jobs("", 5.0)] == ["11", "12", "13"]
    assert module.all_targets(5.0, ("43",))[0] == [other]
    del environs[13]
    monkeypatch.setattr(module.procfs, "uninterruptible", lambda pids: [13])
    assert module.all_targets(5.0, ("43",))[0] == [other, loose], "whose environment would have to be waited for"


def test_what_ends_while_a_host_is_looked_at_does_not_take_the_others_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Target(str(os.getpid()), os.getpid(), "process", "python train.py", "ada", 60.0, "torch")
    gone = dataclasses.replace(here, name=str(2**22 + 1), pid=2**22 + 1)
    closed = dataclasses.replace(here, name="1", pid=1, why_not="it is another user's")
    monkeypatch.setattr(module, "targets", lambda: [gone, here, closed])
    assert [one.name for one in jobs("", 5.0)] == [str(os.getpid())]
