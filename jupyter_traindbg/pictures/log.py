"""The course of a log: who wrote when, where exceptions were printed, which lines the verdict rests on, what the loss did meanwhile."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..language import text
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
_UNITS = ((2 * DAY_S, DAY_S, "days", "天"), (7200.0, 3600.0, "hours", "小时"), (180.0, 60.0, "minutes", "分钟"))
"""From how many seconds, how many seconds, and their names."""


def tell(data: LogDiagnosis) -> Told:
    title = text(f"the course of {elided(data.target, 60)}", f"{elided(data.target, 60)} 的经过")
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
        empty.text(0.01, 0.5, text("no line of the log was kept", "未保留日志中的任何一行"), va="center")
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
        return text(f"nothing wrong found in {data.lines_read:,} lines", f"{data.lines_read:,} 行中未发现问题")
    title = data.findings[0].title
    cause = _cause(data.course)
    if cause is None or f"line {cause.line.number} " in title or f"第 {cause.line.number} 行" in title:
        return title
    return text(f"{title}: {_place(data, cause.line)}", f"{title}：{_place(data, cause.line)}")


def _cause(course: LogCourse | None) -> LogMark | None:
    return next((mark for _, _, mark in course.marks if mark.role == "cause"), None) if course else None


def _place(data: LogDiagnosis, line: LogLine) -> str:
    where = text(f"line {line.number:,}", f"第 {line.number:,} 行")
    if len(data.sources) == 1:
        return where
    name = elided(data.sources[line.source].name, FILE)
    return text(f"{where} of {name}", f"{name} {where}")


def _event(data: LogDiagnosis, mark: LogMark) -> str:
    return " · ".join(filter(None, [_place(data, mark.line), mark.line.who, mark.words]))


def _flag(data: LogDiagnosis, course: LogCourse) -> str:
    cause = _cause(course)
    if cause is None:
        return ""
    return text(f"the cause: {_place(data, cause.line)}", f"根因：{_place(data, cause.line)}")


def _sparse(data: LogDiagnosis, course: LogCourse) -> str:
    return text(
        f"of {data.lines_read:,} lines {course.kept:,} were kept, and are shown; how densely the others were written is not known",
        f"{data.lines_read:,} 行中保留并显示了 {course.kept:,} 行；其余各行的疏密未知",
    )


def _details(data: LogDiagnosis, course: LogCourse) -> Iterator[str]:
    for _, _, mark in told_apart(course):
        yield _event(data, mark)
    for lane in course.lanes:
        who, n = _lane(data, lane), lane.lines
        errors = text(", with exceptions", "，其中有异常") if lane.errors else ""
        yield text(f"{who}: {n:,} line{'s' * (n != 1)}{errors}", f"{who}：{n:,} 行{errors}")
    if course.stages:
        seen = Counter(name for _, name in course.stages)
        said = ", ".join(f"{name} x{n}" if n > 1 else name for name, n in seen.items())
        yield text(
            f"stages: {said}; the last one: {course.stages[-1][1]}", f"阶段：{said}；最后：{course.stages[-1][1]}"
        )


def _sketches(course: LogCourse) -> list[Sketch]:
    values = [value if math.isfinite(value) else math.nan for _, value in course.points]
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return []
    kept = values[:: max(1, math.ceil(len(values) / SKETCHED))]
    words = text(f"from {number(finite[0])} to {number(finite[-1])}", f"从 {number(finite[0])} 到 {number(finite[-1])}")
    if len(finite) < len(values):
        words += text(", and values that are not finite", "，其中有非有限值")
    return [Sketch(course.metric, kept, words)]


def _lane(data: LogDiagnosis, lane: LogLane) -> str:
    """Who writes there. What nobody has signed is the launcher's, where all but its lines are signed."""
    course = data.course
    assert course is not None
    if lane.writers > 1:
        return text(f"{lane.writers} others", f"其余 {lane.writers} 个")
    if lane.who:
        return lane.who
    if len(course.lanes) == 1:
        return text("all lines", "全部行")
    signed = sum(other.lines for other in course.lanes if other is not lane)
    starter = next((_STARTERS[name] for name in data.launchers if name in _STARTERS), "")
    if starter and signed > lane.lines:
        return text(starter, {"launcher": "启动器", "driver": "driver"}.get(starter, starter))
    return text("not signed", "未署名")


# --- the axis ------------------------------------------------------------------------------------------------------


def _axis(data: LogDiagnosis, course: LogCourse) -> tuple[float, str]:
    """Seconds in a unit of the axis (1 for lines), and what it shows."""
    if not course.by_clock:
        if len(data.sources) > 1:
            return 1.0, text("line of each file", "各文件中的行号")
        name = elided(data.sources[0].name, FILE)
        return 1.0, text(f"line of {name}", f"{name} 的行号")
    span = course.last - course.first
    scale, en, zh = next(((s, en, zh) for least, s, en, zh in _UNITS if span >= least), (1.0, "seconds", "秒"))
    form = "%H:%M:%S" if course.first < _OF_DAY_S else "%Y-%m-%d %H:%M:%S"
    began = time.strftime(form, time.gmtime(course.first))
    return scale, text(f"{en} since {began}", f"自 {began} 起的{zh}数")
