"""How verdicts speak of a process on the way of a wait, and of one that holds a file's lock."""

from __future__ import annotations

from ...language import text
from ...model import HostPid, Subject
from ...words.ranks import ranks_words
from .case import Case, View
from .doing import Doing, phrase
from .stops import Edge, Stop, of_partner
from .words import command_words, process_words, program_words

__all__ = ["asker", "asking", "at", "does", "held", "holder_does", "named", "process", "short", "subject", "there"]


def subject(process: HostPid, who: str = "") -> Subject:
    """``pid 4711``, and on which host where there are several; what its job calls it, where it is of one."""
    host, pid = process
    return Subject("thing", who) if who else Subject("process", f"{pid} on {host}" if host else pid)


def asking(view: View) -> str:
    """``rank 2``; ``driver`` of a process that is no rank."""
    return view.evidence.who or ranks_words([view.rank])


def asker(view: View) -> Subject:
    """The same as whom a finding names."""
    return Subject("thing", view.evidence.who) if view.evidence.who else Subject("rank", view.rank)


def there(process: HostPid, step: str) -> str:
    """A step that is to be taken where a process is."""
    host = process[0]
    return text("On {host}: {step}", host=host, step=step) if host else step


def short(stop: Stop) -> str:
    """``process 4711``, ``process 4711 on node2``, ``rank 2``, ``Reward[0]``."""
    return _called(stop, "")


def named(stop: Stop) -> str:
    """With the name of its program, for titles."""
    return _called(stop, f" ({program_words(stop.command)})")


def process(stop: Stop) -> str:
    """With its whole command line, for evidence."""
    return _called(stop, f" (`{command_words(stop.command)}`)")


def _called(stop: Stop, runs: str) -> str:
    if stop.rank is not None:
        return ranks_words([stop.rank])
    return stop.who if stop.who and not runs else process_words(stop.process, runs, stop.who)


def does(stop: Stop, *, last: bool = True) -> str:
    """`last`: nobody follows it, so that one without work is at the end of the way."""
    if stop.state == "stopped":
        return phrase(Doing("signal"))
    if stop.state == "asleep":
        return text("is in uninterruptible sleep")
    return text("has nothing to do") if stop.state == "idle" and last else phrase(stop.seen)


def at(place: str, seen: Doing) -> str:
    """`` at train.py:42 step``; empty where its stack is not known."""
    return text(" at {at}", at=place) if seen.frame is not None else ""


def held(case: Case, process: HostPid) -> list[str]:
    """Who holds the file lock for which a process waits, and what that one does; its host has to be named."""
    host, pid = process
    owner, does_now = case.beside_on(host).lock_holders.get(pid), holder_does(case, process)
    return [] if owner is None else [text("that lock is held by {owner}{does}", owner=owner, does=does_now)]


def holder_does(case: Case, process: HostPid) -> str:
    """``; that one sleeps at keep.py:7 keep``; empty where it was not looked at."""
    stop = _holder(case, process)
    if stop is None:
        return ""
    return text("; that one {does}{at}", does=does(stop), at=at(case.at(stop.seen), stop.seen))


def _holder(case: Case, process: HostPid) -> Stop | None:
    """None for one that holds it itself."""
    host, pid = process
    beside = case.beside_on(host)
    owner = beside.lock_holders.get(pid)
    partner = None if owner is None or owner.pid == pid else beside.partners.get(owner.pid)
    if partner is None:
        return None
    return next(iter(of_partner(partner, Edge((host, partner.pid)), process, case.sources)), None)
