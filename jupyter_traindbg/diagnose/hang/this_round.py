"""Whether a rank has made the call at which others wait since it was last where it is now, by what the flight recorders say of the calls
before: a line behind another one tells nothing where the others may be a round ahead.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Literal

from ...model import CallSites, Collective, Frame, Past
from .case import Case, View

__all__ = ["made"]

Mark = Literal["there", "here", ""]


def made(case: Case, past: Past, *, usually: bool = True) -> bool | None:
    """Whether the ranks of `past` have; None where that is not known. ``usually``: they are the ones that may have done what they never do;
    else every time that they were where they are now without it counts.
    """
    here, there = case.by_rank.get(past.ranks[0]), case.by_rank.get(past.others[0])
    if here is None or there is None or here.collectives is None or here.pending is None:
        return None
    marks = list(_marks(here, past, there.pending))
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


def _marks(view: View, past: Past, call: Collective | None) -> Iterator[Mark]:
    """Of each call of a rank, the oldest first, whether it came from the line of the others, or from where it is itself. Calls whose place
    no recorder knows, as those of autograd's own threads, are told by what they are.
    """
    assert view.collectives is not None
    calls = [c for c in view.collectives.calls if not c.p2p]
    sites = view.evidence.call_sites
    for one in calls:
        frames = _frames(sites, one) if isinstance(sites, CallSites) else None
        if frames is not None:
            yield next((mark for f in frames if (mark := _at(f, past))), "")
        else:
            there, here = call is not None and _alike(one, call), _alike(one, calls[-1])
            yield "" if there is here else "there" if there else "here"


def _frames(sites: CallSites, call: Collective) -> Sequence[Frame] | None:
    index = sites.at.get(call.group, {}).get(call.sequence)
    return None if index is None else sites.sites[index].frames


def _at(frame: Frame, past: Past) -> Mark:
    """The innermost one counts: a line may lead to the other."""
    at = (frame.file, frame.line)
    return "here" if at == (past.now.file, past.now.line) else "there" if at == (past.line.file, past.line.line) else ""


def _alike(one: Collective, other: Collective) -> bool:
    return (one.group, one.op) == (other.group, other.op)
