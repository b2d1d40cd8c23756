"""What a printed metric does over a log: its neighbours, medians of its parts, its own noise. Small and pure; the facts use it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from ...model import LogEvidence, LogLine, LogSeries

__all__ = [
    "apart",
    "climbs",
    "finite",
    "line_at",
    "medians",
    "noise",
    "plain",
    "quarters",
    "rising_share",
    "sure",
    "value_at",
]

Point = tuple[int, float]
SURE = 8.0


def finite(series: LogSeries) -> list[Point]:
    """Its (line number, value) points that are numbers."""
    return [p for p in series.points if math.isfinite(p[1])]


def quarters(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    """The values of the first and of the last quarter (at least one each)."""
    size = max(1, len(points) // 4)
    return [v for _, v in points[:size]], [v for _, v in points[-size:]]


def medians(points: Sequence[Point]) -> tuple[float, float]:
    """The medians of the first and of the last quarter."""
    first, last = quarters(points)
    return median(first), median(last)


def noise(points: Sequence[Point]) -> float:
    """How much it jumps from one value to the next: the median of the absolute differences. A bar that is drawn again and again repeats its
    values, as a rule half of them: those do not count. What hardly ever moves has no noise.
    """
    values = [v for _, v in points]
    steps = [abs(b - a) for a, b in itertools.pairwise(values)]
    moves = [step for step in steps if step]
    return median(moves if len(moves) > len(steps) / 4 else steps) if steps else 0.0


def rising_share(points: Sequence[Point]) -> float:
    """The share of steps at which the value went up."""
    values = [v for _, v in points]
    ups = [b > a for a, b in itertools.pairwise(values)]
    return sum(ups) / len(ups) if ups else 0.0


def climbs(points: Sequence[Point]) -> bool:
    """Whether each value is above the one before."""
    return len(points) > 1 and all(b > a for (_, a), (_, b) in itertools.pairwise(points))


def apart(lower: Sequence[float], higher: Sequence[float]) -> bool:
    """Whether all values of one lie below all of the other, an eighth of each at that end left out: single pauses and spikes."""
    below = sorted(lower)[: len(lower) - len(lower) // 8]
    return max(below) < min(sorted(higher)[len(higher) // 8 :])


def sure(points: Sequence[Point]) -> bool:
    """Whether the last quarter lies elsewhere than the first one, and that is no play of the noise: either they do not overlap, or their
    medians differ by eight standard errors. (Of values with noise of a normal distribution the median of the differences is about one
    standard deviation, and the standard error of a median of m values 1.25 deviations by the root of m.)
    """
    early, late = quarters(points)
    error = 1.25 * noise(points) / math.sqrt(len(early))
    return apart(early, late) or apart(late, early) or abs(median(late) - median(early)) > SURE * error


def line_at(evidence: LogEvidence, source: int, number: int) -> LogLine | None:
    """The kept line with this number, or the last kept one before it."""
    before: Iterator[LogLine] = (line for line in evidence.lines if line.source == source and line.number <= number)
    return max(before, key=lambda line: line.number, default=None)


def value_at(series: Iterable[LogSeries], names: Sequence[str], source: int, number: int) -> tuple[str, float] | None:
    """The last value at or before line `number` of the first of `names` (endings of a series' name) that is there."""
    of_source = [s for s in series if s.source == source]
    for wanted in names:
        for s in of_source:
            if s.name == wanted or s.name.endswith(("/" + wanted, "_" + wanted, " " + wanted)):
                before = [v for n, v in s.points if n <= number]
                if before:
                    return s.name, before[-1]
    return None


def plain(value: float) -> str:
    """A number as people write it: ``0.002``, ``3e-05``, ``11.2``."""
    if value.is_integer() and abs(value) < 1e6:  # neither nan nor inf is
        return str(int(value))
    return f"{value:.4g}"
