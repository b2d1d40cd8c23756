"""Small line charts: as block characters, and as the points of an SVG polyline. Values that are not finite become gaps with a mark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["SVG_HEIGHT", "SVG_WIDTH", "Drawing", "drawing", "sparkline"]

BLOCKS = "▁▂▃▄▅▆▇█"
NOT_FINITE = "×"
SVG_WIDTH, SVG_HEIGHT = 360, 48
SVG_POINTS = 90
LEAST_RANGE = 0.02


def sparkline(values: Sequence[float], width: int = 40) -> str:
    """`values` in at most `width` characters; ``×`` where one is not finite. Each character is a mean: spikes drown."""
    if not values:
        return ""
    cells = [_mean(bucket) for bucket in _buckets(values, max(1, width))]
    low, high = _range(cells)
    return "".join(_block(v, low, high) for v in cells)


def _block(v: float, low: float, high: float) -> str:
    if not math.isfinite(v):
        return NOT_FINITE
    return BLOCKS[min(len(BLOCKS) - 1, int(_level(v, low, high) * len(BLOCKS)))]


def _level(v: float, low: float, high: float) -> float:
    """Where `v` lies between the two, in [0, 1]. Halved first: the difference of huge values would overflow."""
    height = high / 2 - low / 2
    return (v / 2 - low / 2) / height if height > 0 else 0.5


@dataclass(frozen=True)
class Drawing:
    """``lines``: the points (``x,y``) of one polyline per unbroken stretch. ``marks``: where, from the left, a value was not finite."""

    lines: tuple[tuple[str, ...], ...]
    marks: tuple[float, ...]


def drawing(values: Sequence[float]) -> Drawing:
    """`values` in a box of `SVG_WIDTH` by `SVG_HEIGHT`, at most 180 points; a spike survives, since buckets keep least and greatest."""
    points: list[float] = []
    for bucket in _buckets(values, SVG_POINTS):
        points += _ends(bucket)
    low, high = _range(points)
    across = SVG_WIDTH / max(1, len(points) - 1)
    lines: list[list[str]] = [[]]
    marks = []
    for i, v in enumerate(points):
        if math.isfinite(v):
            lines[-1].append(f"{i * across:.4g},{SVG_HEIGHT - 4 - _level(v, low, high) * (SVG_HEIGHT - 8):.3g}")
        else:
            marks.append(round(i * across, 1))
            lines.append([])
    drawn = [line * 2 if len(line) == 1 else line for line in lines if line]  # one point alone would have no length
    return Drawing(tuple(map(tuple, drawn)), tuple(dict.fromkeys(marks)))


def _buckets(values: Sequence[float], most: int) -> list[Sequence[float]]:
    n = min(most, len(values))
    return [values[i * len(values) // n : (i + 1) * len(values) // n] for i in range(n)]


def _mean(bucket: Sequence[float]) -> float:
    """Not finite where one of them is not. Each is divided first: the sum of huge values would overflow."""
    return sum(v / len(bucket) for v in bucket) if all(map(math.isfinite, bucket)) else math.nan


def _ends(bucket: Sequence[float]) -> list[float]:
    """Least and greatest in their order of time, or one NaN where a value is not finite."""
    if not all(map(math.isfinite, bucket)):
        return [math.nan]
    low, high = min(bucket), max(bucket)
    if low == high:
        return [low]
    return [low, high] if bucket.index(low) < bucket.index(high) else [high, low]


def _range(values: Sequence[float]) -> tuple[float, float]:
    """The bottom and the top of the chart. They are never closer than `LEAST_RANGE` of the values: noise is to look flat."""
    known = [v for v in values if math.isfinite(v)]
    if not known:
        return 0.0, 0.0
    low, high = min(known), max(known)
    margin = max(abs(low), abs(high)) * LEAST_RANGE / 2
    if high / 2 - low / 2 >= margin:
        return low, high
    middle = low / 2 + high / 2
    return middle - margin, middle + margin
