"""How verdicts speak of a process on the way of a wait, and of one that holds a file's lock."""

from __future__ import annotations

from ...language import text
from ...words.ranks import ranks_words
from .case import Case, View
from .doing import Doing, phrase
from .stops import Edge, Stop, of_partner
from .words import command_words, program_words

__all__ = ["at", "does", "held", "holder_does", "named", "process", "short"]


def short(stop: Stop) -> str:
    """``process 4711``, ``rank 2``."""
    return text("process {pid}", pid=stop.pid) if stop.rank is None else ranks_words([stop.rank])


def named(stop: Stop) -> str:
    """With the name of its program, for titles."""
    return f"{short(stop)} ({program_words(stop.command)})" if stop.rank is None else short(stop)


def process(stop: Stop) -> str:
    """With its whole command line, for evidence."""
    return f"{short(stop)} (`{command_words(stop.command)}`)" if stop.rank is None else short(stop)


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


def held(case: Case, view: View, pid: int) -> list[str]:
    """Who holds the file lock for which a process on the host of a rank waits, and what that one does."""
    owner, does_now = case.beside(view).lock_holders.get(pid), holder_does(case, view, pid)
    return [] if owner is None else [text("that lock is held by {owner}{does}", owner=owner, does=does_now)]


def holder_does(case: Case, view: View, pid: int) -> str:
    """``; that one sleeps at keep.py:7 keep``; empty where it was not looked at."""
    stop = _holder(case, view, pid)
    if stop is None:
        return ""
    return text("; that one {does}{at}", does=does(stop), at=at(case.at(stop.seen), stop.seen))


def _holder(case: Case, view: View, pid: int) -> Stop | None:
    """None for one that holds it itself."""
    beside = case.beside(view)
    owner = beside.lock_holders.get(pid)
    partner = None if owner is None or owner.pid == pid else beside.partners.get(owner.pid)
    if partner is None:
        return None
    return next(iter(of_partner(partner, Edge(partner.pid), pid, case.sources)), None)
