"""Whether a rank has made the call at which others wait since it was last where it is now, by what the flight recorders say of the calls
before: a line behind another one tells nothing where the others may be a round ahead.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Literal

from ...model import CallSites, Collective, Past
from .case import Case, View

__all__ = ["made"]

Mark = Literal["there", "here", ""]
Path = tuple[tuple[str, int], ...]
"""The lines of the program that lead to a call."""


def made(case: Case, past: Past, *, usually: bool = True) -> bool | None:
    """Whether the ranks of `past` have; None where that is not known. ``usually``: they are the ones that may have done what they never do;
    else every time that they were where they are now without it counts.
    """
    here, there = case.by_rank.get(past.ranks[0]), case.by_rank.get(past.others[0])
    if here is None or there is None or here.collectives is None or here.pending is None or there.pending is None:
        return None
    if here.pending.p2p or there.pending.p2p:
        return None
    if isinstance(here.evidence.call_sites, CallSites) is not isinstance(there.evidence.call_sites, CallSites):
        return None
    marks = list(_marks(here, here.collectives.calls, there, there.pending))
    before, last = _runs(marks)
    if last == 0:
        return None
    if not before:
        return "there" in marks
    return last <= (statistics.mode(before) if usually else 1)


def _runs(marks: Sequence[Mark]) -> tuple[list[int], int]:
    """How often they were here between two times there, and since the last one."""
    before, last = [], 0
    for mark in marks:
        if mark == "there":
            before += [last] if last else []
            last = 0
        last += mark == "here"
    return before, last


def _marks(here: View, made_here: Sequence[Collective], there: View, waits: Collective) -> Iterator[Mark]:
    """Of each call of the one, the oldest first, whether it came the way by which the other one waits, or that of its own last one."""
    calls = [c for c in made_here if not c.p2p]
    theirs, own = _way(there, waits), _way(here, calls[-1])
    for one in calls:
        way = _way(here, one)
        is_there = _alike(one, waits) if way is theirs is None else way == theirs
        is_here = _alike(one, calls[-1]) if way is own is None else way == own
        yield "" if is_there is is_here else "there" if is_there else "here"


def _way(view: View, call: Collective) -> Path | None:
    """None of a call whose way no recorder knows, as of autograd's own threads. Such a one is told by what it is."""
    sites = view.evidence.call_sites
    index = sites.at.get(call.group, {}).get(call.sequence) if isinstance(sites, CallSites) else None
    if index is None or not isinstance(sites, CallSites):
        return None
    return tuple((f.file, f.line) for f in sites.sites[index].frames if not f.library)


def _alike(one: Collective, other: Collective) -> bool:
    return (one.group, one.op) == (other.group, other.op)
