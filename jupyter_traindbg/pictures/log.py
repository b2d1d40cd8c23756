"""The course of a log: who wrote when, where exceptions were printed, which lines the verdict rests on, what the loss did meanwhile."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..language import later, text
from ..model import LogCourse, LogDiagnosis, LogLane, LogLine, LogMark, Sketch
from ..render.units import number
from .canvas import new_figure
from .fitted import elided
from .log_figure import Labels, figure, told_apart
from .told import Told

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw", "tell"]

LANE, EVENT, FILE = 32, 135, 40
"""Columns of text that there is room for."""
SKETCHED = 120
DAY_S = 86400.0
_OF_DAY_S = 2 * DAY_S
"""A time below is one of day."""
_STARTERS = {"torchrun": "launcher", "deepspeed": "launcher", "mpi": "launcher", "slurm": "srun", "ray": "driver"}
_UNITS = (
    (2 * DAY_S, DAY_S, later("days since {began}")),
    (7200.0, 3600.0, later("hours since {began}")),
    (180.0, 60.0, later("minutes since {began}")),
)
"""From how many seconds, how many seconds, and their names."""


def tell(data: LogDiagnosis) -> Told:
    title = text("the course of {elided}", elided=elided(data.target, 60))
    course = data.course
    words = [_answer(data)]
    if course is None:
        return Told(title, words)
    if not course.whole:
        words.append(_sparse(data, course))
    return Told(title, words, _sketches(course), [*_details(data, course)])


def draw(data: LogDiagnosis) -> Figure:
    course = data.course
    if course is None:
        empty = new_figure(0.6)
        empty.text(0.01, 0.5, text("no line of the log was kept"), va="center")
        return empty
    unit_s, axis = _axis(data, course)
    labels = Labels(
        lanes=[elided(_lane(data, lane), LANE) for lane in course.lanes],
        events=[elided(_event(data, mark), EVENT) for _, _, mark in told_apart(course)],
        axis=axis,
        flag=_flag(data, course),
        unit=unit_s,
    )
    return figure(course, labels)


# --- words ---------------------------------------------------------------------------------------------------------


def _answer(data: LogDiagnosis) -> str:
    if not data.findings:
        return text("nothing wrong found in {lines_read:,} lines", lines_read=data.lines_read)
    title = data.findings[0].title
    cause = _cause(data.course)
    if cause is None or text("line {number} ", number=cause.line.number) in title:
        return title
    return text("{title}: {place}", title=title, place=_place(data, cause.line))


def _cause(course: LogCourse | None) -> LogMark | None:
    return next((mark for _, _, mark in course.marks if mark.role == "cause"), None) if course else None


def _place(data: LogDiagnosis, line: LogLine) -> str:
    where = text("line {number:,}", number=line.number)
    if len(data.sources) == 1:
        return where
    name = elided(data.sources[line.source].name, FILE)
    return text("{where} of {name}", where=where, name=name)


def _event(data: LogDiagnosis, mark: LogMark) -> str:
    return " · ".join(filter(None, [_place(data, mark.line), mark.line.who, mark.words]))


def _flag(data: LogDiagnosis, course: LogCourse) -> str:
    cause = _cause(course)
    if cause is None:
        return ""
    return text("the cause: {place}", place=_place(data, cause.line))


def _sparse(data: LogDiagnosis, course: LogCourse) -> str:
    return text(
        "of {lines_read:,} lines {kept:,} were kept, and are shown; how densely the others were written is not known",
        lines_read=data.lines_read,
        kept=course.kept,
    )


def _details(data: LogDiagnosis, course: LogCourse) -> Iterator[str]:
    for _, _, mark in told_apart(course):
        yield _event(data, mark)
    for lane in course.lanes:
        who, n = _lane(data, lane), lane.lines
        errors = text(", with exceptions") if lane.errors else ""
        yield text("{who}: {n:,} line{value}{errors}", who=who, n=n, value="s" * (n != 1), errors=errors)
    if course.stages:
        seen = Counter(name for _, name in course.stages)
        said = ", ".join(f"{name} x{n}" if n > 1 else name for name, n in seen.items())
        yield text("stages: {said}; the last one: {stages}", said=said, stages=course.stages[-1][1])


def _sketches(course: LogCourse) -> list[Sketch]:
    values = [value if math.isfinite(value) else math.nan for _, value in course.points]
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return []
    kept = values[:: max(1, math.ceil(len(values) / SKETCHED))]
    words = text("from {finite} to {finite2}", finite=number(finite[0]), finite2=number(finite[-1]))
    if len(finite) < len(values):
        words += text(", and values that are not finite")
    return [Sketch(course.metric, kept, words)]


def _lane(data: LogDiagnosis, lane: LogLane) -> str:
    """Who writes there. What nobody has signed is the launcher's, where all but its lines are signed."""
    course = data.course
    assert course is not None
    if lane.writers > 1:
        return text("{writers} others", writers=lane.writers)
    if lane.who:
        return lane.who
    if len(course.lanes) == 1:
        return text("all lines")
    signed = sum(other.lines for other in course.lanes if other is not lane)
    starter = next((_STARTERS[name] for name in data.launchers if name in _STARTERS), "")
    if starter and signed > lane.lines:
        return text("launcher") if starter == "launcher" else starter
    return text("not signed")


# --- the axis ------------------------------------------------------------------------------------------------------


def _axis(data: LogDiagnosis, course: LogCourse) -> tuple[float, str]:
    """Seconds in a unit of the axis (1 for lines), and what it shows."""
    if not course.by_clock:
        if len(data.sources) > 1:
            return 1.0, text("line of each file")
        name = elided(data.sources[0].name, FILE)
        return 1.0, text("line of {name}", name=name)
    span = course.last - course.first
    seconds = (1.0, later("seconds since {began}"))
    scale, words = next(((scale, words) for least, scale, words in _UNITS if span >= least), seconds)
    form = "%H:%M:%S" if course.first < _OF_DAY_S else "%Y-%m-%d %H:%M:%S"
    began = time.strftime(form, time.gmtime(course.first))
    return scale, text(words, began=began)
