"""The dynamic loss scale of fp16: at its floor (``loss_scale_at_floor``), or falling far without end (``loss_scale_falling``).

The search from 2**16 or 2**32 downwards at the start, and one overflow every thousand steps, are its normal working and give nothing.
"""

from __future__ import annotations

import itertools
import math
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from ....model import LogEvidence, LogLine, LogSeries
from ..progress import progress_of
from . import Fact

__all__ = ["facts"]

_NUMBER = r"(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"
_OVERFLOWS = [
    re.compile(rf"(?i)attempted loss\s+scale:? *{_NUMBER},? reducing to *{_NUMBER}"),
    re.compile(rf"(?i)reducing (?:dynamic )?loss scale from *{_NUMBER} to *{_NUMBER}"),
    re.compile(rf"(?i)overflow.{{0,120}}?(?:reducing|setting|new) loss scale (?:to)?:? *{_NUMBER}"),
    re.compile(
        rf"(?i)overflow.{{0,60}}?loss[_ ]scale (?:(?:is|reduced|decreased|lowered|down|now|to|=|:) ?)+{_NUMBER}"
    ),
]
_GROWS = re.compile(r"(?i)\bincreas(?:ing|ed) (?:dynamic )?loss[ _]scale\b")
_WRITER = re.compile(r"(?i)overflow!? rank (\d{1,5})")
_SCALE = re.compile(r"(?:^|[/_ .])(?:loss|grad|amp)[_ ]scale(?:r?_?scale)?$")
_LOSS = re.compile(r"loss$")

DOWN = ((1, 4.0), (3, 64.0), (8, 1024.0))
"""So many overflows seen, and the scale now below that: the search is not going to end. A sound run settles at some thousands; the fewer
overflows an excerpt shows, the lower the scale has to be."""
GOOD = 3
"""So many finite losses printed after the last overflow, without another one, and the search has ended."""
LEARNING = 2
"""So many are enough where they fall."""


class _Overflow(NamedTuple):
    line: LogLine
    before: float
    after: float


def facts(evidence: LogEvidence) -> list[Fact]:
    by_source: dict[int, list[_Overflow]] = defaultdict(list)
    for line in evidence.lines:
        scales = _scales(line.text)
        if scales is not None:
            by_source[line.source].append(_Overflow(line, *scales))
    found = [_judge(evidence, overflows) for overflows in by_source.values()]
    found += [_of_series(s) for s in evidence.series if _SCALE.search(s.name) and s.source not in by_source]
    return [fact for fact in found if fact is not None]


def _scales(text: str) -> tuple[float, float] | None:
    """The scale before and after an overflow that `text` tells of."""
    low = text.lower()
    if "overflow" not in low and "loss scale" not in low:
        return None
    for pattern in _OVERFLOWS:
        match = pattern.search(text)
        if match is not None:
            numbers = [float(n) for n in match.groups()]
            return (numbers[0], numbers[-1]) if len(numbers) == 2 else (2 * numbers[0], numbers[0])
    return None


def _judge(evidence: LogEvidence, overflows: Sequence[_Overflow]) -> Fact | None:
    search, had_grown = _search(evidence, overflows)
    last = search[-1]
    at_floor = last.after <= 1
    if _settled(evidence, last.line, at_floor=at_floor) or _learns_between(evidence, overflows):
        return None
    values: dict[str, float | str] = {
        "first_scale": max(o.before for o in search),
        "last_scale": last.after,
        "overflows_count": len(search),
    }
    if at_floor:
        at = next(o.line for o in search if o.after <= 1)
        return Fact("loss_scale_at_floor", at, values, _rank(at))
    if progress_of(evidence).after(last.line):
        return None  # steps are counted, no loss is printed
    falls = any(len(search) >= seen and last.after <= low for seen, low in DOWN if seen > 1 or not had_grown)
    first = search[0].line
    return Fact("loss_scale_falling", first, values, _rank(first)) if falls else None


def _search(evidence: LogEvidence, overflows: Sequence[_Overflow]) -> tuple[list[_Overflow], bool]:
    """The overflows since the scale last grew, if it has: each halves it, so that one from a higher scale comes after many sound steps.

    Lines with one scale, and no loss between them, are of several ranks: the last of them counts. At the floor all count.
    """
    levels: list[_Overflow] = []
    for one in overflows:
        last = levels[-1] if levels else None
        if (
            last
            and last.after == one.after > 1
            and not _losses(evidence, one.line.source, last.line.number, one.line.number)
        ):
            levels.pop()
        levels.append(one)
    grown = [i for i, (a, b) in enumerate(itertools.pairwise(levels), 1) if b.before > a.after > 1]
    return (levels[grown[-1] :], True) if grown else (levels, False)


def _rank(line: LogLine) -> int | None:
    named = _WRITER.search(line.text)
    return int(named[1]) if named and line.rank is None else line.rank


def _settled(evidence: LogEvidence, last: LogLine, *, at_floor: bool) -> bool:
    """Whether after the last overflow finite losses are printed, and nothing skipped, or the scale is said to grow."""
    later = (x.text for x in evidence.lines if x.source == last.source and x.number > last.number)
    if any(_GROWS.search(text) for text in later):
        return True
    after = _losses(evidence, last.source, last.number, math.inf)
    falling = len(after) >= LEARNING and after[-1] < after[0] and not at_floor
    return len(after) >= GOOD or falling


def _learns_between(evidence: LogEvidence, overflows: Sequence[_Overflow]) -> bool:
    """Whether the loss falls from overflows to overflows: there were enough steps between that were not skipped."""
    at = [-math.inf, *(o.line.number for o in overflows), math.inf]
    between = [_losses(evidence, overflows[0].line.source, a, b) for a, b in itertools.pairwise(at)]
    ends = [losses[-1] for losses in between if losses]
    last = next(losses for losses in reversed(between) if losses) if ends else []
    late = sum(not losses for losses in between[len(between) - 1 - between[::-1].index(last) :]) if ends else 0
    return len(ends) >= GOOD and late <= LEARNING and all(b < a for a, b in itertools.pairwise(ends))


def _losses(evidence: LogEvidence, source: int, after: float, before: float) -> list[float]:
    """The finite values between two lines, of the loss that is printed most often there."""
    losses = [s for s in evidence.series if s.source == source and _LOSS.search(s.name)]
    found = ([v for _, v in _between(s.points, after, before) if math.isfinite(v)] for s in losses)
    return max(found, key=len, default=[])


def _between(points: Sequence[tuple[int, float]], after: float, before: float) -> Sequence[tuple[int, float]]:
    """In order of the lines, as they are."""
    first = bisect_right(points, after, key=lambda p: p[0])
    return points[first : bisect_left(points, before, first, key=lambda p: p[0])]


def _of_series(series: LogSeries) -> Fact | None:
    """A printed scale that came down to 1 or less. A constant one belongs to bf16 or to a fixed scale."""
    points = [p for p in series.points if math.isfinite(p[1])]
    if len(points) < 3 or points[-1][1] > 1 or max(v for _, v in points) < 16:
        return None
    number = next(n for n, v in points if v <= 1)
    values: dict[str, float | str] = {
        "first_scale": max(v for _, v in points),
        "last_scale": points[-1][1],
        "overflows_count": sum(b < a for (_, a), (_, b) in itertools.pairwise(points)),
    }
    line = LogLine(series.source, number, f"{series.name} {points[-1][1]:g}", series.rank)
    return Fact("loss_scale_at_floor", line, values, series.rank)
