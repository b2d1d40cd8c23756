"""The steps of all ranks as columns: the latest one by one, older ones as means over several where only those are left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..live import SERIES, Feed
from ..live.history import Bools, Floats, History, Ints

__all__ = ["Columns", "by_rank", "names"]


@dataclass(frozen=True)
class Columns:
    """Of one rank. ``count``: how many steps a row stands for; ``values`` by series, with NaN where ``missing`` says that there was
    none, and where it was not finite.
    """

    rank: int
    step: Ints
    count: Ints
    time_s: Floats
    values: dict[str, Floats]
    missing: dict[str, Bools]


def names(feed: Feed) -> list[str]:
    """The series that there are, in their order."""
    return [s.name for s in SERIES if feed.history.has(s.name)]


def by_rank(feed: Feed) -> Iterator[Columns]:
    """One rank after the other. Holds up the feed for the time of one rank's copy."""
    history, wanted = feed.history, names(feed)
    for rank in feed.ranks:
        with history.lock:
            row = history.row_of(rank)
            if row is None or not history.last[row]:
                continue
            yield _joined(rank, _old(history, row, wanted), _single(history, row, wanted))


Part = tuple[Ints, Ints, Floats, dict[str, Floats], dict[str, Bools]]


def _single(history: History, row: int, wanted: Sequence[str]) -> Part:
    first, last = max(int(history.first[row]), history.oldest_raw), int(history.last[row])
    times = history.raw("time_s", [row], first, last)[0][0]
    there = ~np.isnan(times)
    values, missing = {}, {}
    for name in wanted:
        figures, bad = (a[0][there] for a in history.raw(name, [row], first, last))
        values[name], missing[name] = figures, np.isnan(figures) & ~bad
    steps = np.arange(first, last + 1, dtype=np.int64)[there]
    return steps, np.ones(len(steps), np.int64), times[there], values, missing


def _old(history: History, row: int, wanted: Sequence[str]) -> Part:
    """Buckets that lie wholly before the single steps."""
    first, width = int(history.first[row]), history.width
    begin, end = (first - 1) // width, (history.oldest_raw - 1) // width - 1
    if end < begin:
        nothing: Floats = np.zeros(0)
        empty = dict.fromkeys(wanted, nothing)
        return np.zeros(0, np.int64), np.zeros(0, np.int64), nothing, empty, dict.fromkeys(wanted, nothing > 0)
    _, ended, _, _, _ = history.buckets("time_s", [row], begin, end)
    there = ~np.isnan(ended[0])
    values, missing = {}, {}
    for name in wanted:
        _, _, mean, bad, _ = history.buckets(name, [row], begin, end)
        values[name] = np.where(bad[0], np.nan, mean[0])[there]
        missing[name] = (np.isnan(mean[0]) & ~bad[0])[there]
    steps = (np.arange(begin, end + 1, dtype=np.int64) * width + 1)[there]
    return steps, np.full(len(steps), width, np.int64), ended[0][there], values, missing


def _joined(rank: int, old: Part, new: Part) -> Columns:
    step, count, time_s = (np.r_[a, b] for a, b in zip(old[:3], new[:3], strict=True))
    values = {name: np.r_[old[3][name], new[3][name]] for name in new[3]}
    missing = {name: np.r_[old[4][name], new[4][name]] for name in new[4]}
    return Columns(rank, step, count, time_s, values, missing)
