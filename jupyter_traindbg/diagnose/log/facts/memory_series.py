"""Memory that the log prints and that grows without levelling off: ``gpu_memory_growing``, ``host_memory_growing``."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from statistics import fmean

from ....model import LogEvidence, LogSeries
from .. import trends
from . import Fact

__all__ = ["facts"]

_MEMORY = re.compile(
    r"(?:^|[/_ ])(?:mem|memory|vram|rss)(?:[/_ ]|$)|mem(?:ory)?_(?:used|allocated|reserved)|allocated_(?:gb|mb)|peak_mem"
    r"|(?:^|[/_ ])(?:ram|alloc(?:ated)?)$"
)
_PEAK = re.compile(r"max|peak|total|limit|capacity|util|percent|ratio|frac|free|avail")
_HOST = re.compile(r"cpu|host|rss|ram\b|system")
_UNITS = (("gb", 2**30), ("gib", 2**30), ("mb", 2**20), ("mib", 2**20), ("kb", 2**10), ("bytes", 1))

FEWEST, FEW, RISES = 40, 6, 4
"""Printed values from which on a trend with its ups and downs says something; fewer have to rise, and so often, without any fall."""
RISING = 0.6
GROWTH, STEADY_GROWTH = 1.15, 1.02
"""So much more at the end than after the warm-up; and of what never falls."""


def facts(evidence: LogEvidence) -> list[Fact]:
    found = [f for s in evidence.series for f in _grows(evidence, s)]
    return [
        f for name in ("gpu_memory_growing", "host_memory_growing") for f in [x for x in found if x.name == name][:1]
    ]


def _grows(evidence: LogEvidence, series: LogSeries) -> Iterator[Fact]:
    if not _MEMORY.search(series.name) or _PEAK.search(series.name):
        return
    points = trends.finite(series)
    by_thirds = len(points) >= FEWEST // 2 and _by_thirds(points[len(points) // 5 :])
    if len(points) < FEW or not (by_thirds or _steadily(points)):
        return
    points = points[len(points) // 5 :]
    share = trends.rising_share(points)
    factor = _bytes(series.name, points[-1][1])
    values: dict[str, float | str] = {
        "name": series.name,
        "steps_count": series.count,
        "first_bytes": points[0][1] * factor,
        "last_bytes": points[-1][1] * factor,
        "per_step_bytes": (points[-1][1] - points[0][1]) * factor / max(1, len(points) - 1),
        "rising_share": f"{share:.0%}",
    }
    name = "host_memory_growing" if _HOST.search(series.name) else "gpu_memory_growing"
    yield Fact(name, trends.line_at(evidence, series.source, points[0][0]), values, series.rank)


def _by_thirds(points: Sequence[trends.Point]) -> bool:
    if points[0][1] <= 0:
        return False
    third = len(points) // 3
    a, b, c = (fmean(v for _, v in part) for part in (points[:third], points[third : 2 * third], points[2 * third :]))
    grown = points[-1][1] > GROWTH * points[0][1]
    return a < b < c and c - b > 0.4 * (b - a) and grown and trends.rising_share(points) > RISING


def _steadily(points: Sequence[trends.Point]) -> bool:
    """Few values that never fall, rise again and again, and by as much at the end as at the beginning."""
    values = [v for _, v in points]
    rises = [b - a for a, b in itertools.pairwise(values)]
    if min(rises) < 0 or sum(r > 0 for r in rises) < RISES or values[-1] <= STEADY_GROWTH * values[len(values) // 4]:
        return False
    half = len(rises) // 2
    return sum(rises[half:]) > 0.5 * sum(rises[:half])


def _bytes(name: str, value: float) -> float:
    """The unit: by the name, else by what is possible (a card has 8 to 200 GB)."""
    for unit, factor in _UNITS:
        if re.search(rf"(?:^|[_/( ]){unit}\b", name):
            return float(factor)
    return 2.0**30 if value < 4096 else (2.0**20 if value < 2**23 else 1.0)
