"""Any range of a history as few points as a chart can show: by min and max, so that a spike never vanishes."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from .history import Bools, Floats, History
from .series import SERIES

__all__ = [
    "FEW_RANKS",
    "Curve",
    "Range",
    "Span",
    "Thinned",
    "curve_of",
    "latest_of",
    "sparkline_of",
    "spread_of",
    "thin",
]

T = TypeVar("T", bound=np.generic)
PIECES = 32

FEW_RANKS = 8
"""So many ranks have a line each; more are shown as a band."""


@dataclass(frozen=True)
class Curve:
    """One series over a range of steps. ``x``: steps, or seconds since the epoch; ``lines``: by rank as many values as ``x`` has, NaN
    where there is none; or ``band``: the least of all ranks, their median, and the greatest.

    Where points stand for several steps (``per_point`` > 1), two neighbours are the least and the greatest of them, in their order.
    ``nonfinite``: by rank, the x at which values were NaN or infinite. ``complete``: every single step of the range is in memory; else
    the oldest ones are there as least, greatest and mean only.
    """

    x: Floats
    lines: Mapping[int, Floats]
    band: tuple[Floats, Floats, Floats] | None
    complete: bool
    per_point: int = 1
    nonfinite: Mapping[int, Floats] = field(default_factory=dict)


@dataclass(frozen=True)
class Thinned:
    """By rank and bucket. ``step``: the first step of each bucket, which are `width` long."""

    step: Floats
    width: int
    low: Floats
    high: Floats
    mean: Floats
    bad: Bools
    rising: Bools


@dataclass(frozen=True)
class Span:
    """The steps from ``first`` to ``last``, in at most about so many buckets."""

    first: int
    last: int
    buckets: int
    directed: bool = True
    """Whether it has to be known which of least and greatest came first."""


def thin(history: History, column: str, rows: Sequence[int], span: Span) -> Thinned:
    """The steps of `span` in buckets of equal width, a power of two. Hold the history's lock.

    The edges of buckets do not depend on where it begins and ends, so that a curve that grows keeps its points.
    Reads what the answer needs: from the history's buckets where these are fine enough or all there is, else from the single steps.
    """
    least = max(1, math.ceil((span.last - span.first + 1) / max(1, span.buckets)))
    wanted = 1 << (least - 1).bit_length()
    if wanted < history.width and span.first >= history.oldest_raw:
        return _from_raw(history, column, rows, span, wanted)
    return _from_buckets(history, column, rows, span, wanted)


def _from_raw(history: History, column: str, rows: Sequence[int], span: Span, width: int) -> Thinned:
    first, last = span.first, span.last
    start = (first - 1) // width * width + 1
    begin = max(start, history.oldest_raw)
    values, bad = history.raw(column, rows, begin, last)
    if width == 1:
        finite = np.where(bad, np.nan, values)
        return Thinned(np.arange(begin, last + 1, dtype=float), 1, finite, finite, finite, bad, np.zeros_like(bad))
    pad = begin - start
    count = math.ceil((last - start + 1) / width)
    full = np.full((len(rows), count * width), np.nan)
    full[:, pad : pad + values.shape[1]] = np.where(bad, np.nan, values)
    marks = np.zeros(full.shape, bool)
    marks[:, pad : pad + values.shape[1]] = bad
    cells = full.reshape(len(rows), count, width)
    low, high = np.fmin.reduce(cells, axis=2), np.fmax.reduce(cells, axis=2)
    known = ~np.isnan(cells)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(known, cells, 0.0).sum(axis=2) / known.sum(axis=2)
    rising = (cells == low[:, :, None]).argmax(axis=2) < (cells == high[:, :, None]).argmax(axis=2)
    return Thinned(
        start + width * np.arange(count, dtype=float),
        width,
        low,
        high,
        mean,
        np.logical_or.reduce(marks.reshape(cells.shape), axis=2),
        rising,
    )


def _from_buckets(history: History, column: str, rows: Sequence[int], span: Span, width: int) -> Thinned:
    first, last, fine = span.first, span.last, history.width
    group = max(1, math.ceil(width / fine))
    begin, end = (first - 1) // fine, (last - 1) // fine
    cells = Cells(*history.buckets(column, rows, begin, end))
    pad = begin % group
    if group > 1:
        cells = _joined(cells, pad, group, span.directed)
    steps = 1.0 + fine * (begin - pad + group * np.arange(cells.low.shape[1], dtype=float))
    steps[:1] = np.maximum(steps[:1], 1.0 + fine * begin)
    return Thinned(steps, fine * group, *cells)


class Cells(NamedTuple):
    """Least, greatest, mean, non-finite marks and direction (the least came first), by rank and bucket."""

    low: Floats
    high: Floats
    mean: Floats
    bad: Bools
    rising: Bools


def _joined(cells: Cells, pad: int, group: int, directed: bool) -> Cells:
    """Each `group` neighbouring buckets as one; `pad` of the first group are not there. ``rising`` only where `directed`."""
    count = -(-(pad + cells.low.shape[1]) // group)

    def folded(a: npt.NDArray[T], nothing: float) -> npt.NDArray[T]:
        full = np.full((a.shape[0], count * group), nothing, a.dtype)
        full[:, pad : pad + a.shape[1]] = a
        return full.reshape(a.shape[0], count, group)

    low, high, mean = folded(cells.low, np.nan), folded(cells.high, np.nan), folded(cells.mean, np.nan)
    least, greatest = _across(np.fmin, low), _across(np.fmax, high)
    known = ~np.isnan(mean)
    with np.errstate(invalid="ignore", divide="ignore"):
        middle = _across(np.add, np.where(known, mean, 0.0)) / _across(np.add, known.astype(float))
    rising = np.zeros(least.shape, bool)
    if directed:
        at_least = (low == least[:, :, None]).argmax(axis=2)
        at_greatest = (high == greatest[:, :, None]).argmax(axis=2)
        inner = np.take_along_axis(folded(cells.rising, False), at_least[:, :, None], axis=2)[:, :, 0]
        rising = np.where(at_least == at_greatest, inner, at_least < at_greatest)
    return Cells(least, greatest, middle, _across(np.logical_or, folded(cells.bad, False)), rising)


def _across(join: np.ufunc, cells: npt.NDArray[T]) -> npt.NDArray[T]:
    """Over the last axis. A short one is faster piece by piece."""
    if cells.shape[2] > PIECES:
        whole: npt.NDArray[T] = join.reduce(cells, axis=2)
        return whole
    return functools.reduce(join, (cells[:, :, i] for i in range(cells.shape[2])))


@dataclass(frozen=True)
class Range:
    """Which part of a curve: from ``first`` to ``last`` in units of ``x`` (None: all there is), in about ``points`` points."""

    first: float | None = None
    last: float | None = None
    points: int = 600
    x: Literal["step", "time"] = "step"


def curve_of(history: History, name: str, part: Range, *, ranks: Sequence[int] | None) -> Curve:
    """See `Feed.curve`."""
    with history.lock:
        wanted = None if ranks is None else set(ranks)
        in_order = [(rank, row) for rank, row in history.in_order if wanted is None or rank in wanted]
        chosen, rows = [rank for rank, _ in in_order], [row for _, row in in_order]
        begin, end = _steps(history, part)
        if not chosen or not history.has(name) or end < begin:
            return Curve(np.zeros(0), {}, None, True)
        banded = ranks is None and len(chosen) > FEW_RANKS
        span = Span(begin, end, max(1, part.points if banded else part.points // 2), directed=not banded)
        thinned = thin(history, name, rows, span)
        complete = begin >= history.oldest_raw
        at = thinned.step if part.x == "step" else history.times(thinned.step)
        nonfinite = {chosen[i]: at[thinned.bad[i]] for i in np.flatnonzero(thinned.bad.any(axis=1))}
        if banded:
            return Curve(at, {}, _band(thinned), complete, thinned.width, nonfinite)
        x, lines = _lines(thinned, chosen)
        return Curve(x if part.x == "step" else history.times(x), lines, None, complete, thinned.width, nonfinite)


def _steps(history: History, part: Range) -> tuple[int, int]:
    """The first and the last step of a range."""
    first, last = part.first, part.last
    if part.x == "time":
        first = None if first is None else history.step_at(first)
        last = None if last is None else history.step_at(last) + 1
    begin = history.earliest if first is None else max(history.earliest, math.floor(first))
    return begin, history.steps if last is None else min(history.steps, math.ceil(last))


def _band(thinned: Thinned) -> tuple[Floats, Floats, Floats]:
    ordered = np.sort(thinned.mean, axis=0)  # NaN last
    known = (~np.isnan(ordered)).sum(axis=0)
    middle = np.take_along_axis(ordered, np.maximum(0, (known - 1) // 2)[None, :], axis=0)[0]
    return np.fmin.reduce(thinned.low, axis=0), middle, np.fmax.reduce(thinned.high, axis=0)


def _lines(thinned: Thinned, ranks: Sequence[int]) -> tuple[Floats, dict[int, Floats]]:
    """Steps, and by rank a value for each: of buckets the least and the greatest in their order, at the beginning and in the middle."""
    if thinned.width == 1:
        return thinned.step, {rank: thinned.low[i] for i, rank in enumerate(ranks)}
    x = np.empty(2 * len(thinned.step))
    x[0::2], x[1::2] = thinned.step, thinned.step + thinned.width // 2
    lines = {}
    for i, rank in enumerate(ranks):
        line = np.empty(len(x))
        line[0::2] = np.where(thinned.rising[i], thinned.low[i], thinned.high[i])
        line[1::2] = np.where(thinned.rising[i], thinned.high[i], thinned.low[i])
        lines[rank] = line
    return x, lines


# --- a few figures -------------------------------------------------------------------------------------------------

LATEST_STEPS = 64


TIMES = frozenset(s.name for s in SERIES if s.unit == "s")
"""Single steps differ too much to tell: of these the median of the last steps is the latest value."""


def latest_of(history: History, names: Sequence[str]) -> dict[str, dict[int, float]]:
    """See `Feed.latest_by_rank`."""
    found = {}
    with history.lock:
        if history.steps == 0:
            return {}
        rows, last = list(range(len(history.ranks))), history.steps
        first = max(history.oldest_raw, last - LATEST_STEPS + 1)
        for name in names:
            values, bad = history.raw(name, rows, first, last)
            known = ~np.isnan(values) | bad
            if name in TIMES and known.any():
                values = _medians(values)
            at = values.shape[1] - 1 - known[:, ::-1].argmax(axis=1)
            there = known.any(axis=1)
            if there.any():
                found[name] = {history.ranks[i]: float(values[i, at[i]]) for i in np.flatnonzero(there)}
    return found


def _medians(values: Floats) -> Floats:
    """By row, in every place, the median of what there is."""
    ordered = np.sort(values, axis=1)  # NaN last
    known = (~np.isnan(ordered)).sum(axis=1)
    middle = np.take_along_axis(ordered, np.maximum(0, (known - 1) // 2)[:, None], axis=1)
    return np.broadcast_to(middle, values.shape)


def spread_of(by_rank: Mapping[int, float]) -> tuple[float, float, float]:
    """Least, median and greatest of the finite ones; NaN where there are none."""
    known = sorted(v for v in by_rank.values() if math.isfinite(v))
    return (known[0], known[(len(known) - 1) // 2], known[-1]) if known else (math.nan, math.nan, math.nan)


def sparkline_of(history: History, name: str, values: int, rank: int | None) -> list[float | None]:
    """See `Feed.sparkline`."""
    with history.lock:
        row = 0 if rank is None else history.row_of(rank)
        if row is None or not history.ranks or not history.has(name):
            return []
        thinned = thin(history, name, [row], Span(history.earliest, history.steps, values))
        line, bad = thinned.mean[0], thinned.bad[0]
    return [None if b else float(v) for v, b in zip(line, bad, strict=True) if b or np.isfinite(v)]
