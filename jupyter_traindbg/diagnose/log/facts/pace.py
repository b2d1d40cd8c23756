"""How fast the run goes, by its own figures.

``steps_per_second_falling``, ``gpu_utilisation_low``, ``sequences_longer``.

A run is compared with its own beginning; the first tenth (compilation, caches) is left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from statistics import median

from ....model import LogEvidence, LogSeries
from .. import trends
from . import Fact

__all__ = ["facts"]

_RATE = re.compile(
    r"(?:^|[/_ ])(?:it/s|steps?[_/ ](?:per_|/ ?)?s(?:ec(?:ond)?)?|iterations?/s|(?:samples|tokens)?[_ ]per[_ ]sec(?:ond)?"
    r"|throughput|samplespersec|tokens/s|wps|ups|speed|fps)$"
)
_PERIOD = re.compile(
    r"(?:^|[/_ ])(?:step[_ ]time|time[_ ]per[_ ](?:step|iteration)|iter[_ ]time|elapsed time per iteration|batch[_ ]time"
    r"|sec[_/ ](?:per_)?step|time_per_iteration|(?<!data_)last_time|^time|(?:time|seconds)[_ /](?:this|per)?[_ ]?epoch"
    r"|epoch[_ ]time)(?:[ _](?:\(?ms\)?|s))?$"
)
_UTILISATION = re.compile(r"(?:^|[/_ ])gpu[_ ]?util\w*$")
_LENGTH = re.compile(
    r"response_length/mean|completions?/mean_length|mean_completion_length|completion_length$|num_tokens_per_step"
    r"|seq(?:uence)?_len\w*/mean|global_seqlen/mean"
)

_OF_ENGINE = re.compile(r"prompt|generation|cache|accepted|drafted")
"""What an inference engine prints goes by its requests."""

FEWEST, FEW, FEW_EPOCHS = 60, 20, 9
"""Printed values from which on a figure says how it changes; from which on one does whose end lies apart from its beginning; and where each
is of a whole epoch.
"""
SLOWER, SLOWER_OVERLAPPING, SLOWER_EPOCHS = 1.5, 3.0, 1.3
"""How much slower, where the last quarter lies apart from the beginning, where they overlap, and of whole epochs."""
FEWEST_CLEAR, SLOWER_CLEAR = 6, 2.0
"""Fewer of a rate, which is a mean over many steps, have to be apart all the same, and so much slower."""
FEWEST_EARLY = 6
CUMULATIVE = 0.9
"""The share of rises from which on a time is one since the beginning."""


def facts(evidence: LogEvidence) -> list[Fact]:
    series = [s for s in evidence.series if s.count >= FEWEST]
    slow = [f for s in evidence.series if s.count >= FEWEST_CLEAR for f in _slower(evidence, s)][:1]
    return [*slow, *_utilisation(evidence, series), *_longer(series)]


def _slower(evidence: LogEvidence, series: LogSeries) -> Iterator[Fact]:
    rate, period = _RATE.search(series.name), _PERIOD.search(series.name)
    if not (rate or period) or _OF_ENGINE.search(series.name):
        return
    points = [p for p in trends.finite(series) if p[1] > 0]
    points = points[len(points) // 10 :]
    bar, epochs = series.name == "it/s", "epoch" in series.name
    fewest, slower = (FEWEST, SLOWER) if bar else (FEW_EPOCHS, SLOWER_EPOCHS) if epochs else (FEW, SLOWER)
    if rate and not bar and not epochs and len(points) < FEW * 9 // 10:
        fewest, slower = FEWEST_CLEAR, SLOWER_CLEAR
    since_begin = series.name == "time" and trends.rising_share(points) > CUMULATIVE
    if len(points) < fewest * 9 // 10 or since_begin or (bar and not _one_bar(evidence, series)):
        return
    early = [v for _, v in points[: max(min(FEWEST_EARLY, len(points) // 4), len(points) // 6)]]
    late = trends.quarters(points)[1]
    first, last = median(early), median(late)
    ratio = first / last if rate else last / first
    if not (trends.apart(late, early) if rate else trends.apart(early, late)):
        slower = SLOWER_OVERLAPPING if len(points) >= FEWEST * 9 // 10 else math.inf
    if ratio < slower or trends.noise(points) >= 0.5 * abs(first - last):
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
    counted = [int(m[1]) for t in texts if (m := re.search(r"^\s*(\d{1,12})it \[", t))]  # without a length
    endless = len(counted) == len(texts) and counted == sorted(counted)
    return len(totals) == 1 or (not totals and endless)


def _change(points: list[trends.Point], first: float, last: float) -> int:
    """The first line from which on the value is nearer to the end's than to the start's."""
    middle = (first + last) / 2
    return next((n for n, v in points if (v > middle) == (last > middle)), points[-1][0])


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
