"""Memory that the log prints and that grows without levelling off: ``gpu_memory_growing``, ``host_memory_growing``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....model import LogEvidence, LogSeries
from .. import trends
from . import Fact

__all__ = ["facts"]

_MEMORY = re.compile(
    r"(?:^|[/_ ])(?:mem|memory|vram|rss)(?:[/_ ]|$)|mem(?:ory)?_(?:used|allocated|reserved)|allocated_(?:gb|mb)|peak_mem"
)
_PEAK = re.compile(r"max|peak|total|limit|capacity|util|percent|ratio|frac|free|avail")
_HOST = re.compile(r"cpu|host|rss|ram\b|system")
_UNITS = (("gb", 2**30), ("gib", 2**30), ("mb", 2**20), ("mib", 2**20), ("kb", 2**10), ("bytes", 1))

FEWEST = 40
RISING = 0.6
GROWTH = 1.3
"""So much more at the end than after the warm-up."""


def facts(evidence: LogEvidence) -> list[Fact]:
    found = [f for s in evidence.series for f in _grows(evidence, s)]
    return [
        f for name in ("gpu_memory_growing", "host_memory_growing") for f in [x for x in found if x.name == name][:1]
    ]


def _grows(evidence: LogEvidence, series: LogSeries) -> Iterator[Fact]:
    if series.count < FEWEST or not _MEMORY.search(series.name) or _PEAK.search(series.name):
        return
    points = trends.finite(series)
    points = points[len(points) // 5 :]
    if len(points) < FEWEST // 2 or points[0][1] <= 0:
        return
    thirds = [
        points[: len(points) // 3],
        points[len(points) // 3 : 2 * len(points) // 3],
        points[2 * len(points) // 3 :],
    ]
    a, b, c = (sum(v for _, v in part) / len(part) for part in thirds)
    share = trends.rising_share(points)
    if not (a < b < c and c - b > 0.4 * (b - a) and points[-1][1] > GROWTH * points[0][1] and share > RISING):
        return
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


def _bytes(name: str, value: float) -> float:
    """The unit: by the name, else by what is possible (a card has 8 to 200 GB)."""
    for unit, factor in _UNITS:
        if re.search(rf"(?:^|[_/( ]){unit}\b", name):
            return float(factor)
    return 2.0**30 if value < 4096 else (2.0**20 if value < 2**23 else 1.0)
