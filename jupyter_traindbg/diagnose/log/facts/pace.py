"""How fast the run goes, by its own figures.

``steps_per_second_falling``, ``data_wait_dominates``, ``gpu_utilisation_low``, ``sequences_longer``.

A run is compared with its own beginning; the first tenth (compilation, caches) is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from statistics import median

from ....model import LogEvidence, LogSeries
from .. import trends
from . import Fact

__all__ = ["facts"]

_RATE = re.compile(
    r"(?:^|[/_ ])(?:it/s|steps?[_/ ](?:per_|/ ?)?s(?:ec(?:ond)?)?|iterations?/s|(?:samples|tokens)?[_ ]per[_ ]sec(?:ond)?"
    r"|throughput|samplespersec|tokens/s|wps|ups)$"
)
_PERIOD = re.compile(
    r"(?:^|[/_ ])(?:step[_ ]time|time[_ ]per[_ ](?:step|iteration)|iter[_ ]time|elapsed time per iteration|batch[_ ]time"
    r"|sec[_/ ](?:per_)?step|time_per_iteration)(?:[ _](?:\(?ms\)?|s))?$"
)
_DATA = re.compile(
    r"(?:^|[/_ ])(?:data[_ ]?time|data[_ ]loading(?:[_ ]time)?|dataloader?[_ ]time|data[_ ]wait(?:[_ ]time)?|load[_ ]time|time/data)$"
)
_STEP = re.compile(r"(?:^|[/_ ])(?:time|step[_ ]time|batch[_ ]time|iter[_ ]time|total[_ ]time)$")
_UTILISATION = re.compile(r"(?:^|[/_ ])gpu[_ ]?util\w*$")
_LENGTH = re.compile(
    r"response_length/mean|completions?/mean_length|mean_completion_length|completion_length$|num_tokens_per_step"
    r"|seq(?:uence)?_len\w*/mean|global_seqlen/mean"
)

FEWEST = 60
SLOWER = 2.0


def facts(evidence: LogEvidence) -> list[Fact]:
    series = [s for s in evidence.series if s.count >= FEWEST]
    slow = [f for s in series for f in _slower(evidence, s)][:1]
    return [*slow, *_data(evidence), *_utilisation(evidence, series), *_longer(series)]


def _slower(evidence: LogEvidence, series: LogSeries) -> Iterator[Fact]:
    rate, period = _RATE.search(series.name), _PERIOD.search(series.name)
    if not rate and not period:
        return
    points = [p for p in trends.finite(series) if p[1] > 0]
    points = points[len(points) // 10 :]
    if len(points) < FEWEST or (series.name == "it/s" and not _one_bar(evidence, series)):
        return
    first, last = trends.medians(points)
    ratio = first / last if rate else last / first
    early, late = trends.quarters(points)
    apart = max(late) < min(early) if rate else min(late) > max(early)
    steady = trends.noise(points) < 0.5 * abs(first - last)
    if ratio < SLOWER or not steady or not (apart or ratio > 3):
        return
    values: dict[str, float | str] = {
        "name": series.name,
        "count": series.count,
        "early": trends.plain(first),
        "late": trends.plain(last),
        "slower": trends.plain(round(ratio, 1)),
        "change_line": _change(points, first, last),
    }
    line = trends.line_at(evidence, series.source, int(str(values["change_line"])))
    yield Fact("steps_per_second_falling", line, values, series.rank)


def _one_bar(evidence: LogEvidence, series: LogSeries) -> bool:
    """Whether all speeds are of one bar: those of loading, mapping and evaluating are not to be compared with training's."""
    numbers = {n for n, _ in series.points}
    texts = [x.text for x in evidence.lines if x.source == series.source and x.number in numbers]
    totals = {m[1] for t in texts if (m := re.search(r"\b\d+/(\d{1,9}) ?\[", t))}
    return len(totals) == 1


def _change(points: list[trends.Point], first: float, last: float) -> int:
    """The first line from which on the value is nearer to the end's than to the start's."""
    middle = (first + last) / 2
    return next((n for n, v in points if (v > middle) == (last > middle)), points[-1][0])


def _data(evidence: LogEvidence) -> Iterator[Fact]:
    for data in evidence.series:
        if not _DATA.search(data.name) or data.count < 20:
            continue
        for step in evidence.series:
            if step.source != data.source or step.rank != data.rank or step is data or not _STEP.search(step.name):
                continue
            wait, whole = (median([v for _, v in trends.finite(s)[1:]] or [0.0]) for s in (data, step))
            if whole > 0.02 and 0.5 < wait / whole <= 1:
                values: dict[str, float | str] = {
                    "name": data.name,
                    "count": data.count,
                    "data_wait": trends.plain(wait),
                    "step_time": trends.plain(whole),
                    "data_share": f"{wait / whole:.0%}",
                }
                yield Fact(
                    "data_wait_dominates", trends.line_at(evidence, data.source, data.points[0][0]), values, data.rank
                )
                return


def _utilisation(evidence: LogEvidence, series: list[LogSeries]) -> Iterator[Fact]:
    for s in series:
        points = trends.finite(s)
        if _UTILISATION.search(s.name) and points:
            middle = median([v for _, v in points])
            if 1 < middle < 30 and max(v for _, v in points) > 1:
                yield Fact(
                    "gpu_utilisation_low",
                    trends.line_at(evidence, s.source, points[0][0]),
                    {"name": s.name, "count": s.count, "utilisation": middle},
                    s.rank,
                )
                return


def _longer(series: list[LogSeries]) -> Iterator[Fact]:
    for s in series:
        points = trends.finite(s)
        if _LENGTH.search(s.name) and points:
            first, last = trends.medians(points)
            if first > 0 and last > 1.5 * first:
                yield Fact(
                    "sequences_longer",
                    None,
                    {"length_name": s.name, "length_first": first, "length_last": last},
                    s.rank,
                )
                return
