"""The course of a log, for its picture: who wrote when, where exceptions were printed, what the loss did. Linear in what was kept."""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from ...model import LogCourse, LogEvidence, LogLane, LogLine, LogMark, LogSeries
from ...model.logs import LogStageName

__all__ = ["course"]

BUCKETS, MOST_LANES, MOST_STAGES, MOST_POINTS = 160, 12, 200, 400
LEAST_POINTS = 3
"""Fewer values make no curve."""
MOSTLY = 0.5
"""The share of the lines that has to be kept to tell how densely they were written: blank ones never are."""
_METRICS = tuple(
    re.compile(form) for form in (r"^(?:train[_ /])?loss$", r"(?:\b|_)loss$", r"loss\b", r"reward", r"grad_?norm")
)
_STEP = re.compile(r"(?:global_?|train_?)?steps?|iter(?:ation)?s?|update")
_DIGITS = re.compile(r"(\d+)")


def course(evidence: LogEvidence, marks: Sequence[LogMark] = ()) -> LogCourse | None:
    """None where no line was kept. 13 ms for 20,000 lines."""
    if not evidence.lines:
        return None
    ruler = _Ruler(evidence)
    who = _Who(evidence)
    written: dict[str, Counter[int]] = defaultdict(Counter)
    for line in evidence.lines:
        written[who(line)][ruler.bucket(line)] += 1
    errors: dict[str, set[int]] = defaultdict(set)
    for error in evidence.errors:
        errors[who(error.line)].add(ruler.bucket(error.line))
    interest = Counter(dict.fromkeys(errors, 1))
    interest.update({who(mark.line): 2 if mark.role == "consequence" else 4 for mark in marks})
    shown = _shown(written, interest)
    lanes = [_lane(name, [written[name]], errors[name], ruler.buckets) for name in shown]
    rest = [name for name in written if name not in set(shown)]
    if rest:
        alike = set().union(*(errors[name] for name in rest))
        lanes.append(_lane("", [written[name] for name in rest], alike, ruler.buckets))
    at = {name: n for n, name in enumerate(shown)}
    placed = [(ruler(m.line.source, m.line.number), at.get(who(m.line), len(lanes) - 1), m) for m in marks]
    metric = _metric(evidence.series)
    points = _thinned(metric.points) if metric else ()
    return LogCourse(
        by_clock=ruler.by_clock,
        first=ruler.first,
        last=ruler.last,
        lanes=tuple(lanes),
        marks=tuple(sorted(placed, key=lambda m: (*m[:2], m[2].line.number))),
        stages=_stages(evidence, ruler),
        metric=metric.name if metric else "",
        points=tuple((ruler(metric.source, n), value) for n, value in points) if metric else (),
        steps=_steps_at(evidence.series, metric, [n for n, _ in points]) if metric else (),
        kept=len(evidence.lines),
        whole=len(evidence.lines) >= MOSTLY * evidence.total_lines and not evidence.dropped,
    )


class _Ruler:
    """Where a line is. Of several files by the clock, if all of them have one; else by the numbers of the lines."""

    def __init__(self, evidence: LogEvidence) -> None:
        self._numbers: dict[int, list[int]] = defaultdict(list)
        self._times: dict[int, list[float]] = defaultdict(list)
        for line in evidence.lines if len(evidence.sources) > 1 else ():
            if line.time_s is not None:
                self._numbers[line.source].append(line.number)
                self._times[line.source].append(line.time_s)
        times = [time for of_source in self._times.values() for time in of_source]
        dated = {n for n, source in enumerate(evidence.sources) if source.lines} <= set(self._times)
        self.by_clock = dated and bool(times) and min(times) < max(times)
        if self.by_clock:
            self.first, self.last, self.buckets = min(times), max(times), BUCKETS
        else:  # as many lines in one as in the other
            longest = max(1, *(source.lines for source in evidence.sources), evidence.lines[-1].number)
            each = math.ceil(longest / BUCKETS)
            self.buckets = math.ceil(longest / each)
            self.first, self.last = 0.5, 0.5 + each * self.buckets
        self._in_one = (self.last - self.first) / self.buckets

    def __call__(self, source: int, number: int) -> float:
        """A line without a time of its own was written when the one before it was."""
        if not self.by_clock:
            return number
        return self._times[source][max(0, bisect_right(self._numbers[source], number) - 1)]

    def bucket(self, line: LogLine) -> int:
        return min(self.buckets - 1, int((self(line.source, line.number) - self.first) / self._in_one))


class _Who:
    """The writer of a line; in a file of several, which is nobody's by name, the file."""

    def __init__(self, evidence: LogEvidence) -> None:
        several = len(evidence.sources) > 1
        self._files = {n: source.name if several else "" for n, source in enumerate(evidence.sources)}

    def __call__(self, line: LogLine) -> str:
        return line.who or self._files[line.source]


def _shown(written: Mapping[str, Counter[int]], interest: Mapping[str, int]) -> list[str]:
    """The writers that get a lane of their own, in the order of their names: those of most interest, of these who wrote most."""
    first = sorted(written, key=lambda name: (-interest.get(name, 0), -written[name].total(), _natural(name)))
    kept = first[:MOST_LANES] if len(first) > MOST_LANES + 1 else first
    return sorted(kept, key=_natural)


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """``rank 9`` before ``rank 10``."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in _DIGITS.split(name))


def _lane(name: str, written: Sequence[Counter[int]], errors: set[int], buckets: int) -> LogLane:
    counts = [sum(one[bucket] for one in written) for bucket in range(buckets)]
    return LogLane(name, sum(counts), tuple(counts), tuple(sorted(errors)), len(written))


def _stages(evidence: LogEvidence, ruler: _Ruler) -> tuple[tuple[float, LogStageName], ...]:
    """Of the file that tells most; one that began too soon after another to be seen is left out."""
    most = Counter(stage.line.source for stage in evidence.stages).most_common(1)
    least = (ruler.last - ruler.first) / MOST_STAGES
    kept: list[tuple[float, LogStageName]] = []
    for stage in evidence.stages:
        place = ruler(stage.line.source, stage.line.number)
        if stage.line.source == most[0][0] and (
            not kept or (place - kept[-1][0] >= least and stage.name != kept[-1][1])
        ):
            kept.append((place, stage.name))
    return tuple(kept[:MOST_STAGES])


def _metric(series: Sequence[LogSeries]) -> LogSeries | None:
    """What is called a loss, of the lowest rank that tells it often; else a reward, else a norm of gradients."""
    long = [one for one in series if one.count >= LEAST_POINTS]
    for form in _METRICS:
        alike = [one for one in long if form.search(one.name)]
        if alike:
            most = max(one.count for one in alike)
            often = [one for one in alike if one.count >= most / 2]
            return min(often, key=lambda one: (one.rank or 0, len(one.name)))
    return None


def _steps_at(series: Sequence[LogSeries], metric: LogSeries, lines: Sequence[int]) -> tuple[float, ...]:
    """The step that each of `lines` tells of: what is printed with it, or in proportion between two lines that tell."""
    told = [
        one for one in series if _STEP.fullmatch(one.name) and (one.source, one.rank) == (metric.source, metric.rank)
    ]
    points = max((one.points for one in told), key=len, default=())
    if len(points) < LEAST_POINTS:
        return ()
    return tuple(_between(points, line) for line in lines)


def _between(points: Sequence[tuple[int, float]], line: int) -> float:
    after = bisect_left(points, (line, -math.inf))
    (first, before), (last, then) = points[max(0, after - 1)], points[min(after, len(points) - 1)]
    if line >= last or first == last:
        return then
    return before if line <= first else before + (then - before) * (line - first) / (last - first)


def _thinned(points: Sequence[tuple[int, float]]) -> Sequence[tuple[int, float]]:
    """Every so manieth, and all that stand out: the greatest, the least, the first that is not finite."""
    if len(points) <= MOST_POINTS:
        return points
    every = math.ceil(len(points) / (MOST_POINTS - 4))
    finite = [p for p in points if math.isfinite(p[1])]
    kept = {*points[::every], points[-1]}
    if finite:
        kept |= {max(finite, key=lambda p: p[1]), min(finite, key=lambda p: p[1])}
    kept |= set([p for p in points if not math.isfinite(p[1])][:1])
    return sorted(kept, key=lambda p: p[0])
