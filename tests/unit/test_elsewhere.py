"""Waits that lead from one host to another: who is asked for what, and what becomes of the answers. Hosts by hand."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from partner_evidence import partner

from jupyter_traindbg.gather import elsewhere, partners
from jupyter_traindbg.model import Beside, Channel, Channels, FarEnd, JobEvidence, SourceLine, TcpEnds

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
        self.answers, self.asked = answers, []

    def ask(self, look: Callable[..., Any], wanted: Sequence[TcpEnds], timeout: float) -> dict[str, Any]:
        assert look is partners.at_other_ends
        self.asked.append(list(wanted))
        nothing = partners.OtherEnds({}, Beside(), {})
        known = {
            host: dataclasses.replace(one, ends={end: far for end, far in one.ends.items() if end in wanted})
            for host, one in self.answers.items()
        }
        return {host: one if one.ends else nothing for host, one in known.items()}


def evidence(**beside: Beside) -> JobEvidence:
    return JobEvidence("ssh:a,b:torchrun", (), 2, beside=beside)


def followed(seen: JobEvidence, hosts: Hosts, left_s: float = 60.0) -> JobEvidence:
    return elsewhere.followed(seen, hosts.ask, time.monotonic() + left_s)


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
