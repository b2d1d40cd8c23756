"""Waits that lead from one host to another: who is asked for what, and what becomes of the answers. Hosts by hand."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hang_evidence import rank, thread, user
from partner_evidence import partner

from jupyter_traindbg.gather import elsewhere, partners
from jupyter_traindbg.model import (
    Beside,
    Channel,
    Channels,
    FarEnd,
    HostPid,
    JobEvidence,
    JobProcess,
    RankEvidence,
    SourceLine,
    TcpEnds,
    Thread,
    Wait,
)

A_TO_B, B_TO_C = TcpEnds("10.0.0.1", 41000, "10.0.0.2", 8000), TcpEnds("10.0.0.2", 42000, "10.0.0.3", 9000)


def tcp(ends: TcpEnds, key: str, *others: int, unread: int = 0) -> Channel:
    name = f"tcp {ends.local_host}:{ends.local_port} -> {ends.remote_host}:{ends.remote_port} ESTABLISHED"
    return Channel("tcp", key, name, others, ends=ends, unread_bytes=unread)


def at(*open_: Channel, waits: Sequence[Sequence[Channel]]) -> Channels:
    return Channels(open_, {tid: tuple(one.key for one in keys) for tid, keys in enumerate(waits, 1)})


def there(ends: Mapping[TcpEnds, FarEnd], *seen: tuple[int, Channels], ranks: Any = None) -> partners.OtherEnds:
    found = {pid: dataclasses.replace(partner(pid), channels=own) for pid, own in seen}
    return partners.OtherEnds(ends, Beside(ranks or {}, found), {"engine.py:1": SourceLine("wait()")})


class Hosts:
    """Hosts that answer by hand, and what each was asked for."""

    def __init__(self, **answers: partners.OtherEnds) -> None:
        self.answers, self.asked, self.called = answers, [], []

    def ask(
        self, look: Callable[..., Any], wanted: Sequence[TcpEnds], called: Mapping[str, Any], timeout: float
    ) -> dict[str, Any]:
        assert look is partners.at_other_ends
        self.asked.append(list(wanted))
        self.called.append({host: dict(processes) for host, processes in called.items()})
        nothing = partners.OtherEnds({}, Beside(), {})
        known = {
            host: dataclasses.replace(one, ends={end: far for end, far in one.ends.items() if end in wanted})
            for host, one in self.answers.items()
        }
        return {host: one if one.ends or host in called else nothing for host, one in known.items()}


def evidence(**beside: Beside) -> JobEvidence:
    return JobEvidence("ssh:a,b:torchrun", (), 2, beside=beside)


def followed(
    seen: JobEvidence, hosts: Hosts, left_s: float = 60.0, processes: Mapping[HostPid, JobProcess] | None = None
) -> JobEvidence:
    return elsewhere.followed(seen, hosts.ask, time.monotonic() + left_s, processes)


def test_each_end_learns_who_has_the_other_one() -> None:
    near, far = tcp(A_TO_B, "socket:[1]", unread=3), tcp(A_TO_B.turned(), "socket:[2]", unread=5)
    hosts = Hosts(b=there({A_TO_B.turned(): FarEnd((70, 71), "socket:[2]", 5)}, (70, at(far, waits=[[far]]))))
    seen = followed(evidence(a=Beside({10: at(near, waits=[[near]])})), hosts)
    ours, theirs = seen.beside["a"].channels[10].open[0], seen.beside["b"].partners[70].channels.open[0]
    assert (ours.beyond("a"), ours.unread_there_bytes, ours.accepted) == ([("b", 70), ("b", 71)], 5, True)
    assert (theirs.beyond("b"), theirs.unread_there_bytes) == ([("a", 10)], 3)
    assert ours.meets(theirs)
    assert theirs.meets(ours)
    assert seen.sources == {"engine.py:1": SourceLine("wait()")}
    assert hosts.asked == [[A_TO_B.turned()]]


def test_it_goes_on_from_there() -> None:
    near, up = tcp(A_TO_B, "socket:[1]"), tcp(B_TO_C, "socket:[3]")
    hosts = Hosts(
        b=there({A_TO_B.turned(): FarEnd((70,), "socket:[2]")}, (70, at(up, waits=[[up]]))),
        c=there({B_TO_C.turned(): FarEnd((80,), "socket:[4]")}, (80, Channels())),
    )
    seen = followed(evidence(a=Beside({10: at(near, waits=[[near]])})), hosts)
    assert seen.beside["b"].partners[70].channels.open[0].beyond("b") == [("c", 80)]
    assert 80 in seen.beside["c"].partners
    assert hosts.asked == [[A_TO_B.turned()], [B_TO_C.turned()]]


def test_a_connection_that_was_not_taken_yet_leads_to_who_listens() -> None:
    near = tcp(A_TO_B, "socket:[1]")
    seen = followed(
        evidence(a=Beside({10: at(near, waits=[[near]])})), Hosts(b=there({A_TO_B.turned(): FarEnd((70,))}))
    )
    assert not seen.beside["a"].channels[10].open[0].accepted


def test_what_a_host_knew_before_stays() -> None:
    near, own = tcp(A_TO_B, "socket:[1]"), Channels((tcp(B_TO_C, "socket:[9]", 5),))
    answer = there({A_TO_B.turned(): FarEnd((20,), "socket:[2]")}, ranks={20: Channels(), 21: Channels()})
    known = evidence(a=Beside({10: at(near, waits=[[near]])}), b=Beside({20: own}))
    assert followed(known, Hosts(b=answer)).beside["b"].channels == {20: own, 21: Channels()}


def test_nobody_is_asked_for_what_leads_nowhere_else() -> None:
    loopback = tcp(dataclasses.replace(A_TO_B, remote_host="127.0.0.1"), "socket:[1]")
    met, idle = tcp(A_TO_B, "socket:[2]", 70), tcp(B_TO_C, "socket:[3]")
    pipe = Channel("pipe", "pipe:[4]", "pipe 4")
    hosts = Hosts()
    known = evidence(a=Beside({10: at(loopback, met, idle, pipe, waits=[[loopback], [met], [pipe]])}))
    assert followed(known, hosts) == known
    assert hosts.asked == []


def test_where_a_thread_waits_alone_is_asked_for_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """An event loop has all connections of its process; of a job of thousands of ranks not all are asked for."""
    monkeypatch.setattr(elsewhere, "MOST_ASKED", 1)
    many = [tcp(dataclasses.replace(B_TO_C, local_port=port), f"socket:[{port}]") for port in (1, 2, 3)]
    alone, hosts = tcp(A_TO_B, "socket:[9]"), Hosts()
    followed(evidence(a=Beside({10: at(*many, alone, waits=[many, [alone]])})), hosts)
    assert hosts.asked == [[A_TO_B.turned()]]


def test_nothing_is_begun_where_no_time_is_left() -> None:
    near, hosts = tcp(A_TO_B, "socket:[1]"), Hosts()
    followed(evidence(a=Beside({10: at(near, waits=[[near]])})), hosts, left_s=0.5)
    assert hosts.asked == []


# --- calls ------------------------------------------------------------------------------------------------------------

GETS = Wait("ray")


def gets(number: int = 0, host: str = "a", wait: Wait = GETS) -> RankEvidence:
    """A rank of pid 1000 + its number that waits for the result of a call."""
    return dataclasses.replace(rank(number, [thread(user(7, "ask"), wait)]), host=host)


def called(*seen: tuple[int, Sequence[Thread]]) -> partners.OtherEnds:
    found = {pid: partner(pid, *threads) for pid, threads in seen}
    return partners.OtherEnds({}, Beside({}, found), {})


def of(*ranks: RankEvidence, **beside: Beside) -> JobEvidence:
    return JobEvidence("ray:01", ranks, len(ranks), beside=beside)


def test_who_was_called_is_looked_at_on_its_own_host() -> None:
    asks, reward = JobProcess("Trainer[0]", [("b", 70)]), JobProcess("Reward[0]")
    hosts = Hosts(b=called((70, [thread(user(9, "score"))])))
    processes = {("a", 1000): asks, ("b", 70): reward, ("b", 71): JobProcess("Reward[1]")}
    seen = followed(of(gets(), a=Beside(), b=Beside()), hosts, processes=processes)
    (call,) = seen.beside["a"].channels[1000].waited_at(1000)
    assert (call.kind, call.beyond("a")) == ("call", [("b", 70)])
    assert seen.beside["b"].partners[70].who == "Reward[0]"
    assert (hosts.asked, hosts.called) == ([[]], [{"b": {70: reward}}])


def test_those_that_these_have_called_are_looked_at_at_once() -> None:
    """The scheduler's word is there before anybody is looked at: one question for the whole way."""
    processes = {
        ("a", 1000): JobProcess("Trainer[0]", [("a", 70)]),
        ("a", 70): JobProcess("Rollout[0]", [("b", 80)]),
        ("b", 80): JobProcess("Reward[0]", [("a", 1000)]),
    }
    hosts = Hosts(a=called((70, [thread(user(9, "run"), GETS)])), b=called((80, [thread(user(11, "score"))])))
    seen = followed(of(gets(), a=Beside(), b=Beside()), hosts, processes=processes)
    assert hosts.called == [{"a": {70: processes["a", 70]}, "b": {80: processes["b", 80]}}]
    rollout = seen.beside["a"].partners[70]
    assert [one.beyond("a") for one in rollout.channels.waited_at(70)] == [[("b", 80)]]
    assert not seen.beside["b"].partners[80].channels.open, "it waits for no result"


def test_one_reached_over_a_connection_is_followed_on_by_its_calls() -> None:
    near = tcp(A_TO_B, "socket:[1]")
    on = there({A_TO_B.turned(): FarEnd((70,), "socket:[2]")}, (70, Channels()))
    on = dataclasses.replace(
        on, beside=called((70, [thread(user(9, "answer"), GETS)]), (80, [thread(user(11, "score"))])).beside
    )
    processes = {("b", 70): JobProcess("Rollout[0]", [("b", 80)]), ("b", 80): JobProcess("Reward[0]")}
    hosts = Hosts(b=on)
    seen = followed(
        of(gets(wait=Wait("network")), a=Beside({1000: at(near, waits=[[near]])}), b=Beside()),
        hosts,
        processes=processes,
    )
    assert [one.beyond("b") for one in seen.beside["b"].partners[70].channels.open if one.kind == "call"] == [
        [("b", 80)]
    ]
    assert hosts.called == [{}, {"b": {80: processes["b", 80]}}]


@pytest.mark.parametrize(
    ("wait", "processes"),
    [
        (Wait("network"), {("a", 1000): JobProcess("Trainer[0]", [("a", 70)]), ("a", 70): JobProcess("Reward[0]")}),
        (GETS, {("a", 1000): JobProcess("Trainer[0]")}),
        (GETS, {}),
    ],
    ids=["waits at a socket", "for nobody known", "of no scheduler"],
)
def test_nobody_is_looked_at_where_no_call_is_waited_for(wait: Wait, processes: dict[HostPid, JobProcess]) -> None:
    hosts = Hosts()
    known = of(gets(wait=wait), a=Beside())
    assert followed(known, hosts, processes=processes) == known
    assert hosts.called == []


def test_a_rank_that_was_called_is_known_already() -> None:
    processes = {("a", 1000): JobProcess("Trainer[0]", [("a", 1001)]), ("a", 1001): JobProcess("Trainer[1]")}
    hosts = Hosts()
    seen = followed(of(gets(), gets(1, wait=Wait("lock")), a=Beside()), hosts, processes=processes)
    assert hosts.called == []
    assert [one.others for one in seen.beside["a"].channels[1000].open] == [(1001,)]


def test_a_driver_is_a_member_of_no_group() -> None:
    trains = dataclasses.replace(partner(70), trains=True)
    known = of(
        gets(wait=Wait("lock")),
        a=Beside({}, {70: trains, 71: dataclasses.replace(trains, activity=partner(71).activity)}),
    )
    seen = followed(
        known, Hosts(), processes={("a", 70): JobProcess("driver", drives=True), ("a", 71): JobProcess("Engine[0]")}
    )
    assert {p: (one.who, one.trains) for p, one in seen.beside["a"].partners.items()} == {
        70: ("driver", False),
        71: ("Engine[0]", True),
    }
