"""A job on hosts that have been named: what is its own, how it is called from here, and what has become of ranks that no host has."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hang_evidence import job as evidence_of
from hang_evidence import waiting

from jupyter_traindbg.errors import AmbiguousTarget, DeadlineExceeded, TargetGone
from jupyter_traindbg.hosts.base import Hosts, short
from jupyter_traindbg.language import text
from jupyter_traindbg.model import (
    Finding,
    Look,
    Memory,
    NotAvailable,
    RankEvidence,
    Slow,
    SlowCause,
    Target,
    parse_target,
    rank_subjects,
)
from jupyter_traindbg.questions import environ, memory
from jupyter_traindbg.questions.environ import OnHost
from jupyter_traindbg.spread import remote
from jupyter_traindbg.spread.found import Found
from jupyter_traindbg.spread.part import Member
from jupyter_traindbg.spread.remote import connect, targets_on

Answer = Callable[[str, str], Any]


class Played(Hosts):
    """Hosts that say what `answer` says for a host and a function's name."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    def is_here(self, name: str) -> bool:
        return False

    def answering(self, name: str) -> bool:
        return True

    def run(self, name: str, function: str, /, *args: Any, deadline_s: float, **kwargs: Any) -> Any:
        return self.answer(name, short(function))

    def close(self) -> None:
        """They need no word."""


def rank(number: int, of: int = 4) -> Member:
    return Member(100 + number, number, of, "", True)


def part(*ranks: int, name: str = "torchrun:41") -> Found:
    return Found(name, "torchrun train.py", tuple(map(rank, ranks)), "10.0.0.1", "29500", "none")


def target(number: int) -> Target:
    return Target(
        str(100 + number), 100 + number, "rank", "python train.py", "ada", 9.0, "torch", rank=number, world_size=4
    )


def plays(monkeypatch: pytest.MonkeyPatch, answers: Mapping[tuple[str, str], Any]) -> None:
    """Have ssh lead to hosts that say this, and nothing to other questions."""
    monkeypatch.setattr(remote.ssh, "open_hosts", lambda names: Played(lambda host, what: answers.get((host, what))))


def not_here(number: int) -> RankEvidence:
    return RankEvidence(number, 4, 0, 0, "", (Look(0.0, ()),), activity=NotAvailable("it is not here"))


def diagnosed(monkeypatch: pytest.MonkeyPatch, on_beta: list[Target]) -> Any:
    seen = evidence_of(
        *(dataclasses.replace(waiting(n), host="alpha") for n in (0, 1)), *map(not_here, (2, 3)), world_size=4
    )
    plays(
        monkeypatch,
        {
            ("alpha", "jobs"): [part(0, 1)],
            ("beta", "jobs"): [],
            ("alpha", "gather"): seen,
            ("beta", "all_targets"): (on_beta, []),
        },
    )
    named = parse_target("ssh:alpha,beta:torchrun")
    assert named is not None
    with connect(named) as job:
        return job.diagnose(timeout=1.0)


def test_ranks_that_no_host_has_have_ended_where_nothing_trains_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = diagnosed(monkeypatch, [])
    assert [(f.code, list(f.who)) for f in seen.findings] == [("rank_ended", ["rank 2", "rank 3"])]
    assert any("nothing that trains is left on beta" in line for line in seen.findings[0].evidence)
    assert [r.rank for r in seen.ranks] == [0, 1, 2, 3]


def test_where_something_is_there_that_may_be_they_are_not_said_to_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launcher whose ranks are only starting, or another job."""
    seen = diagnosed(monkeypatch, [dataclasses.replace(target(0), kind="launcher", name="torchrun:9")])
    assert "rank_ended" not in {f.code for f in seen.findings}


@pytest.mark.parametrize(
    ("on_gamma", "to_type"),
    [
        ("torchrun:77", ["ssh:alpha,beta,gamma:torchrun:41", "ssh:alpha,beta,gamma:torchrun:77"]),
        ("torchrun:41", ["ssh:alpha,beta:torchrun:41", "ssh:gamma:torchrun:41"]),
    ],
)
def test_what_to_type_names_one_job_and_keeps_the_hosts_where_that_is_clear(
    monkeypatch: pytest.MonkeyPatch, on_gamma: str, to_type: list[str]
) -> None:
    """gamma may have what the job on the others waits for, and something that looks like a job beside it."""
    own = Found(on_gamma, "python engine.py", (rank(0, of=1),))
    jobs = {"alpha": [part(0, 1)], "beta": [part(2, 3, name="torchrun:42")], "gamma": [own]}
    plays(monkeypatch, {(host, "jobs"): found for host, found in jobs.items()})
    named = parse_target("ssh:alpha,beta,gamma:torchrun")
    assert named is not None
    with pytest.raises(AmbiguousTarget) as several:
        connect(named)
    assert list(several.value.candidates) == to_type
    chosen = parse_target(to_type[0])
    assert chosen is not None
    with connect(chosen) as job:
        assert [r.member.rank for r in job._placed] == [0, 1, 2, 3]


def of_host(rank: int, host: str) -> OnHost:
    return OnHost({rank: {"NCCL_ALGO": host}}, "nccl", {}, {}, ())


def test_what_each_host_has_seen_is_judged_together_and_one_that_says_nothing_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def says(host: str, what: str) -> Any:
        if what == "look" and host == "gamma":
            raise TargetGone(text("the connection to {host} broke", host=host))
        n = ("alpha", "beta", "gamma").index(host)
        return {"jobs": [part(n)], "look": of_host(n, host), "now": time.time() + 100 * n, "close": None}[what]

    monkeypatch.setattr(remote.ssh, "open_hosts", lambda names: Played(says))
    named = parse_target("ssh:alpha,beta,gamma:torchrun")
    assert named is not None
    with connect(named) as job:
        told = job.environ(timeout=1.0)
        hosts, silent = job.on_each_host(environ.of_host, 1.0, 1.0)
        clocks = job.host_clocks(list(hosts))
    assert [[value.value for value in row.values] for row in told.rows] == [["alpha", "beta"]]
    assert told.rows[0].standing == "differs"
    assert [(one.rank, one.reason) for one in silent] == [(2, "the connection to gamma broke")]
    assert {host: round(clock.ahead_s) for host, clock in clocks.items()} == {"alpha": 0, "beta": 100}


def test_where_no_host_sees_anything_it_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def says(host: str, what: str) -> Any:
        if what == "look":
            raise DeadlineExceeded(text("{name} took too long", name=host))
        return [part(0)]

    monkeypatch.setattr(remote.ssh, "open_hosts", lambda names: Played(says))
    named = parse_target("ssh:alpha:torchrun")
    assert named is not None
    with connect(named) as job, pytest.raises(DeadlineExceeded, match="alpha took too long"):
        job.environ(timeout=1.0)


def test_ranks_without_a_launcher_are_listed_as_one_job(monkeypatch: pytest.MonkeyPatch) -> None:
    plays(
        monkeypatch,
        {
            ("alpha", "all_targets"): ([target(0), target(1)], [part(0, 1, name="100")]),
            ("beta", "all_targets"): ([target(2), target(3)], [part(2, 3, name="102")]),
        },
    )
    named = parse_target("ssh:alpha,beta")
    assert named is not None
    seen = targets_on(named)
    assert [(t.rank, t.name, t.part_of) for t in seen.targets] == [
        (0, "ssh:alpha,beta:100", None),
        (1, "ssh:alpha:101", "ssh:alpha,beta:100"),
        (2, "ssh:beta:102", "ssh:alpha,beta:100"),
        (3, "ssh:beta:103", "ssh:alpha,beta:100"),
    ]


def test_a_finding_says_on_which_host_the_blamed_rank_is(monkeypatch: pytest.MonkeyPatch) -> None:
    late = Finding("data_wait", "warning", "it waits for data", rank_subjects([1]))
    told = Slow((), causes=(SlowCause(late, 0.1, 0.5),))
    grows = Memory((), (), (dataclasses.replace(late, code="memory_growth"),))
    plays(monkeypatch, {("alpha", "jobs"): [part(0)], ("beta", "jobs"): [part(1)]})
    named = parse_target("ssh:alpha,beta:torchrun")
    assert named is not None
    with connect(named) as job:
        monkeypatch.setattr(job, "_ask_together", lambda name, **words: told)
        monkeypatch.setattr(memory, "ask", lambda job, **words: grows)
        answers = [*job.slow().findings, *job.memory().findings]
    assert [finding.evidence for finding in answers] == [["rank 1 is process 101 on beta"]] * 2
