"""Whether a job has become slower than it was before: its latest steps beside all earlier ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..diagnose.hang.pace import RATIO
from ..language import text
from ..step_parts import PARTS
from .history import History

__all__ = ["Pace", "pace_of"]

BACK_AT = 1.25
"""A job that was slow is so no more below this ratio."""
RECENT_S, LEAST_STEPS, MOST_STEPS = 10.0, 20, 4096
FIRST_STEPS = 5
RANKS = 8
"""Of so many ranks the steps are looked at: the ranks of a job step together."""
NAMES = {part.field: part.name for part in PARTS}


@dataclass(frozen=True)
class Pace:
    """The median duration of the latest steps (``recent_s``) and of those before (``before_s``); ``part``: where most of the difference
    goes.
    """

    slow: bool
    recent_s: float
    before_s: float
    part: str
    since_s: float

    @property
    def words(self) -> str:
        ratio, now, before = self.recent_s / self.before_s, _ms(self.recent_s), _ms(self.before_s)
        words = text(
            "{now} a step, {ratio:.1f} times as long as before ({before})", now=now, ratio=ratio, before=before
        )
        name = NAMES.get(self.part)
        return words + (text("; most of it {part}", part=text(name)) if name else "")


def pace_of(history: History, before: Pace | None, now_s: float) -> Pace | None:
    """The pace now; None where there are too few steps to tell. Takes 1 ms."""
    with history.lock:
        rows, last = list(range(min(RANKS, len(history.ranks)))), history.steps
        if last < 2 * LEAST_STEPS + FIRST_STEPS or not history.has("step_s"):
            return None
        recent = _recent(history, rows, last)
        if recent is None:
            return None
        first, now = recent
        then = _before(history, "step_s", rows, first)
        if then is None or then <= 0:
            return None
        slow = now / then >= (BACK_AT if before is not None and before.slow else RATIO)
        part = _grown(history, rows, first, last) if slow else ""
    since_s = before.since_s if before is not None and before.slow == slow else now_s
    return Pace(slow, now, then, part, since_s)


def _recent(history: History, rows: Sequence[int], last: int) -> tuple[int, float] | None:
    """The first of the latest steps, and their median duration."""
    newest = max(history.oldest_raw, last - LEAST_STEPS + 1)
    few = history.raw("step_s", rows, newest, last)[0]
    usual_s = float(np.median(few[~np.isnan(few)])) if not np.isnan(few).all() else RECENT_S
    count = round(min(MOST_STEPS, max(LEAST_STEPS, RECENT_S / max(1e-6, usual_s))))
    first = max(history.oldest_raw, last - count + 1)
    if first <= LEAST_STEPS + FIRST_STEPS:
        first = max(last - LEAST_STEPS + 1, min(last, LEAST_STEPS + FIRST_STEPS + 1))
    values = history.raw("step_s", rows, first, last)[0]
    known = values[~np.isnan(values)]
    return (first, float(np.median(known))) if known.size >= LEAST_STEPS else None


def _before(history: History, column: str, rows: Sequence[int], first: int) -> float | None:
    """The median over the buckets that lie before step `first`, the first steps left out."""
    begin, end = FIRST_STEPS // history.width, (first - 1) // history.width - 1
    if end < begin:
        return None
    _, _, mean, _, _ = history.buckets(column, rows, begin, end)
    known = mean[~np.isnan(mean)]
    return float(np.median(known)) if known.size else None


def _grown(history: History, rows: Sequence[int], first: int, last: int) -> str:
    """The part of a step that has grown most."""
    growth: dict[str, float] = {}
    for name in NAMES:
        if history.has(name):
            values = history.raw(name, rows, first, last)[0]
            known, then = values[~np.isnan(values)], _before(history, name, rows, first)
            if known.size and then is not None:
                growth[name] = float(np.median(known)) - then
    return max(growth, key=growth.__getitem__) if growth else ""


def _ms(value_s: float) -> str:
    return f"{value_s:.2f} s" if value_s >= 1 else f"{value_s * 1e3:.3g} ms"
