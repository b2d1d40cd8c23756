"""Steps that wait for their data most of the time, by the figures of the log: ``data_wait_dominates``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from statistics import fmean

from ....model import LogEvidence, LogSeries
from .. import trends
from . import Fact

__all__ = ["facts"]

_DATA = re.compile(
    r"(?:^|[/_ ])(?:data[_ ]?time|data[_ ]loading(?:[_ ]time)?|dataloader?[_ ]time|data[_ ]wait(?:[_ ]time)?|load[_ ]time|time/data"
    r"|reader_cost)$|^data$"
)
_STEP = re.compile(r"(?:^|[/_ ])(?:time|step[_ ]time|batch[_ ]time|iter[_ ]time|total[_ ]time|batch_cost)$|^batch$")
_MEAN = " mean"
_OF_EPOCH = re.compile(r"\[ {0,6}(\d{1,9})/ {0,6}\d{1,9}\]")
FEWEST, LEAST, STALLS = 4, 8, 3
"""So many printed steps that were all mostly waiting; or so many, and so many of them that were."""
ENOUGH = 100
"""Steps after which the first ones do not count in a mean any more."""
SHARE, LEAST_S = 0.5, 0.02
"""Of a step, and how long a step has to take for that to matter."""


def facts(evidence: LogEvidence) -> list[Fact]:
    """`data_wait`, `step_time` (in the log's unit), `data_share`."""
    return [*_on_average(evidence), *_step_by_step(evidence)][:1]


def _on_average(evidence: LogEvidence) -> Iterator[Fact]:
    """By the means that are printed beside the values."""
    for data, step in _pairs(evidence, _MEAN):
        number, wait = data.points[-1]
        whole = next((v for n, v in reversed(step.points) if n <= number), 0.0)
        line = trends.line_at(evidence, data.source, number)
        counted = _OF_EPOCH.search(line.text) if line is not None else None
        if counted is not None and int(counted[1]) >= ENOUGH:
            yield from _told(evidence, data, wait, whole)


def _step_by_step(evidence: LogEvidence) -> Iterator[Fact]:
    for data, step in _pairs(evidence, ""):
        waits, times = trends.finite(data), trends.finite(step)
        if len(waits) != len(times) or any(d > 1.05 * s for (_, d), (_, s) in zip(waits, times, strict=True)):
            continue  # not two figures of one line, or the one no part of the other
        stalls = [d > SHARE * s for (_, d), (_, s) in zip(waits, times, strict=True)]
        begin = 0 if all(stalls) else 1
        if len(stalls) >= FEWEST and (all(stalls) or (len(stalls) >= LEAST and sum(stalls[1:]) >= STALLS)):
            yield from _told(evidence, data, fmean(v for _, v in waits[begin:]), fmean(v for _, v in times[begin:]))


def _pairs(evidence: LogEvidence, ending: str) -> Iterator[tuple[LogSeries, LogSeries]]:
    """Each time that is spent on data with each time of a whole step of the same writer; `ending`: of the names."""
    named = [(s, s.name.removesuffix(ending)) for s in evidence.series if s.name.endswith(ending) and s.points]
    waits: Sequence[LogSeries] = [s for s, name in named if _DATA.search(name)]
    steps = [s for s, name in named if _STEP.search(name) and s not in waits]
    for data in waits:
        yield from ((data, step) for step in steps if (step.source, step.rank) == (data.source, data.rank))


def _told(evidence: LogEvidence, data: LogSeries, wait: float, whole: float) -> Iterator[Fact]:
    if whole <= LEAST_S or not SHARE < wait / whole <= 1:
        return
    values: dict[str, float | str] = {
        "name": data.name,
        "count": data.count,
        "data_wait": trends.plain(wait),
        "step_time": trends.plain(whole),
        "data_share": f"{wait / whole:.0%}",
    }
    yield Fact("data_wait_dominates", trends.line_at(evidence, data.source, data.points[0][0]), values, data.rank)
