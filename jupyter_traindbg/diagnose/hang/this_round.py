"""Whether a rank has made the call at which others wait since it was last where it is now, by what the flight recorders say of the calls
before: a line behind another one tells nothing where the others may be a round ahead.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from ...model import CallSites, Collective, Past
from .case import Case, View

__all__ = ["made", "made_fewer"]

Mark = Literal["there", "here", ""]
Path = tuple[tuple[str, int], ...]
"""The lines of the program that lead to a call."""


def made(case: Case, past: Past, *, usually: bool = True) -> bool | None:
    """Whether the ranks of `past` have; None where that is not known. ``usually``: they are the ones that may have done what they never do;
    else every time that they were where they are now without it counts.
    """
    *before, last = _rounds(case, past) or [_Round()]
    if last.here == 0:
        return None
    if not before:
        return last.there > 0
    return last.here <= (statistics.mode(one.here for one in before) if usually else 1)


def made_fewer(case: Case, past: Past) -> bool | None:
    """Whether the ranks of `past` have made fewer such calls in this round than in most before it, as where some of several buckets of
    gradients are not reduced; None where that is not known.
    """
    *before, last = _rounds(case, past) or [_Round()]
    if not before or last.here == 0:
        return None
    usual = _Round(statistics.mode(one.here for one in before), statistics.mode(one.there for one in before))
    return last.here > usual.here or last.there < usual.there


class _Round(NamedTuple):
    """How often a rank was where it is now, after so many calls where the others wait."""

    here: int = 0
    there: int = 0


def _rounds(case: Case, past: Past) -> list[_Round]:
    """All that the recorder has, the last one under way; empty where nothing tells the calls apart."""
    own, other = case.by_rank.get(past.ranks[0]), case.by_rank.get(past.others[0])
    if own is None or other is None or own.collectives is None or own.pending is None or other.pending is None:
        return []
    if own.pending.p2p or other.pending.p2p:
        return []
    if isinstance(own.evidence.call_sites, CallSites) is not isinstance(other.evidence.call_sites, CallSites):
        return []
    rounds = [_Round()]
    for mark in _marks(own, own.collectives.calls, other, other.pending):
        if mark == "there" and rounds[-1].here:
            rounds.append(_Round())
        here, there = rounds[-1]
        rounds[-1] = _Round(here + (mark == "here"), there + (mark == "there"))
    return rounds


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
