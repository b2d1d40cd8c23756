"""The losses of several runs, as their logs tell them, over the same steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..errors import NoTarget
from ..language import text
from ..model import LogCourse, LogDiagnosis, Sketch
from ..render.units import number
from . import inks
from .canvas import new_figure
from .scale import scaled
from .told import Told

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw", "tell"]

HEIGHT_IN = 3.0
WIDEST, THINNEST = 6.0, 1.6
"""Of the first line and the last, so that those below are seen where runs did the same."""


@dataclass(frozen=True)
class _Run:
    name: str
    metric: str
    x: Sequence[float]
    y: Sequence[float]


def tell(logs: Mapping[str, LogDiagnosis]) -> Told:
    """Raises `NoTarget` where none of them tells of a loss."""
    runs = _runs(logs)
    metrics = ", ".join(dict.fromkeys(run.metric for run in runs))
    words = [_words(run, _by_steps(logs)) for run in runs]
    without = [name for name in logs if name not in {run.name for run in runs}]
    words += [text("{name}: no loss in its log", name=name) for name in without]
    sketches = [Sketch(run.name, run.y, "") for run in runs]
    return Told(
        text("{metrics} of {count} runs, by their logs", metrics=metrics, count=len(runs)),
        words,
        sketches,
    )


def _runs(logs: Mapping[str, LogDiagnosis]) -> list[_Run]:
    by_steps = _by_steps(logs)
    runs = []
    for name, log in logs.items():
        course = log.course
        if course is not None and course.points:
            x = course.steps if by_steps else [place for place, _ in course.points]
            runs.append(_Run(name, course.metric, x, [value for _, value in course.points]))
    if not runs:
        raise NoTarget(text("no log tells of a loss"), text("`%diagnose` of one of them says what was read of it"))
    return runs


def _by_steps(logs: Mapping[str, LogDiagnosis]) -> bool:
    """Whether all that tell of a loss tell of steps."""
    courses: list[LogCourse] = [log.course for log in logs.values() if log.course is not None and log.course.points]
    return all(course.steps for course in courses)


def _words(run: _Run, by_steps: bool) -> str:
    finite = [(y, x) for x, y in zip(run.x, run.y, strict=True) if math.isfinite(y)]
    if not finite:
        return text("{name}: never finite", name=run.name)
    last, at = finite[-1]
    least, where = min(finite)
    place = text("step") if by_steps else text("line")
    broken = text(", then not finite") if not math.isfinite(run.y[-1]) else ""
    return text(
        "{name}: {last} at {place} {at:,.0f}{broken}; lowest {least} at {place} {where:,.0f}",
        name=run.name,
        last=number(last),
        place=place,
        at=at,
        broken=broken,
        least=number(least),
        where=where,
    )


def draw(logs: Mapping[str, LogDiagnosis]) -> Figure:
    runs = _runs(logs)
    figure = new_figure(HEIGHT_IN)
    axes = figure.subplots()
    logarithmic = scaled(axes, np.array([y for run in runs for y in run.y]))
    axes.set_ylabel(text("loss, log scale") if logarithmic else "loss")
    for n, run in enumerate(runs):
        width = WIDEST + (THINNEST - WIDEST) * n / max(1, len(runs) - 1)
        colour = inks.SERIES[n % len(inks.SERIES)]
        axes.plot(
            run.x, run.y, color=colour, linewidth=width, alpha=0.45 if n == 0 and len(runs) > 1 else 1.0, label=run.name
        )
        bad = [x for x, y in zip(run.x, run.y, strict=True) if not math.isfinite(y)]
        axes.plot(bad, [0.97] * len(bad), "x", color=colour, markersize=6, transform=axes.get_xaxis_transform())
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    axes.set_xlabel(text("step") if _by_steps(logs) else text("line of the log"))
    figure.legend(loc="outside upper right", ncols=min(3, len(runs)))
    return figure
