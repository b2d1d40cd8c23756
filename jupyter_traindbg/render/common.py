"""What several views need: a value or why there is none, medians, ranges over many ranks."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from ..language import text
from ..model import Maybe, NotAvailable, StepNumber
from .blocks import Column, Inline, Span
from .units import number, steady

__all__ = [
    "DASH",
    "clock",
    "finite",
    "measured",
    "median",
    "notes_of",
    "setting",
    "spread",
    "step_columns",
    "value",
]

T = TypeVar("T")
DASH = Span("–", "muted")
"""Nothing to show here, and nothing to explain."""


def measured(value: Maybe[T] | None, show: Callable[[T], str]) -> Span:
    """`value` in words; a dash where there is none, with the reason as a footnote where it is known."""
    if value is None:
        return DASH
    if isinstance(value, NotAvailable):
        return Span("–", "muted", why=value.reason)
    return Span(show(value), value=value if isinstance(value, (int, float)) else None)


def value(x: float | None, show: Callable[[float], str] = steady) -> Span:
    """A measured loss or norm; one that is not finite stands out."""
    if x is None:
        return DASH
    return Span(show(x), "plain" if math.isfinite(x) else "bad", value=x)


def setting(x: float | None) -> Span:
    """A learning rate or another setting, as it would be written down."""
    if x is None:
        return DASH
    return Span(number(x, 4), "plain" if math.isfinite(x) else "bad", value=x)


def step_columns(numbers: Iterable[StepNumber], own: str = "") -> list[tuple[Column, Callable[[StepNumber], Inline]]]:
    """The column of the optimizer's own count, headed `own` (else ``step``), where there is one, and of those since the attach."""
    since: tuple[Column, Callable[[StepNumber], Inline]] = (
        Column(text("since the attach"), right=True),
        lambda n: measured(n.since_attach, "{:,}".format),
    )
    if all(n.own is None for n in numbers):
        return [since]
    return [(Column(own or text("step"), right=True), lambda n: measured(n.own, "{:,}".format)), since]


def finite(values: Iterable[float | None]) -> list[float]:
    return [v for v in values if v is not None and math.isfinite(v)]


def median(values: Iterable[float | None]) -> float | None:
    """Of the finite ones; None where there are none."""
    known = finite(values)
    return statistics.median(known) if known else None


def spread(by_rank: Sequence[tuple[int, float]], show: Callable[[float], str]) -> Inline:
    """``min 1.2 GiB (rank 3) · median 1.5 GiB · max 9 GiB (rank 17)``; one figure where all are the same."""
    known = [(v, rank) for rank, v in by_rank if math.isfinite(v)]
    if not known:
        return DASH
    low, high = min(known), max(known, key=lambda k: (k[0], -k[1]))
    if low[0] == high[0]:
        return show(low[0])
    middle = statistics.median(v for v, _ in known)
    return text(
        "min {least} (rank {low}) · median {middle} · max {most} (rank {high})",
        least=show(low[0]),
        low=low[1],
        middle=show(middle),
        most=show(high[0]),
        high=high[1],
    )


def notes_of(noted: Iterable[tuple[int, str]]) -> list[Inline]:
    """Notes of ranks, each said once with the ranks it is about."""
    from ..words.ranks import compact_ranks
    from .grouping import group_by

    with_words = [(rank, note) for rank, note in noted if note]
    groups = group_by(with_words, lambda n: n[1])
    return [
        [Span(compact_ranks([rank for rank, _ in same]), "strong"), text(": {note}", note=same[0][1])]
        for same in groups
    ]


def clock(time_s: float) -> str:
    try:
        return time.strftime("%H:%M:%S", time.localtime(time_s))
    except (ValueError, OverflowError, OSError):  # a clock that was never set, or NaN
        return "–"
