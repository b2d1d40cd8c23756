"""The learning rate over all recorded steps: what the schedule set, and what the steps used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..errors import NoTarget
from ..language import text
from ..model import Sketch
from ..render.units import number
from . import inks
from .course import Course
from .over_steps import drawn_over_steps, key
from .scale import scaled
from .told import Told

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..live.history import Floats

__all__ = ["draw", "tell"]

HEIGHT_IN = 2.4
SAME = 1e-6
"""Rates that differ by a smaller share are the same one, read twice."""


def tell(course: Course) -> Told:
    """Raises `NoTarget` where no learning rate was recorded."""
    if "lr_effective" not in course.series:
        raise NoTarget(
            text("no learning rate has been recorded in {steps:,} steps", steps=course.steps),
            text("`%lr` shows what the optimizers say now"),
        )
    scheduled, used = _rates(course)
    of_group = text(", of the first param group") if course.groups > 1 else ""
    title = text("learning rate{of_group} · {extent}", of_group=of_group, extent=course.extent)
    words = [_answer(scheduled, used)]
    return Told(title, words, [Sketch(text("used"), [float(v) for v in used], words[0])], key(course))


def _rates(course: Course) -> tuple[Floats, Floats]:
    """What was scheduled and what was used, of the first rank that has any: all ranks of a job have the same."""
    used, scheduled = course.series["lr_effective"].mean, course.series["lr"].mean
    row = _row(course)
    return scheduled[row], used[row]


def _row(course: Course) -> int:
    return int(np.isfinite(course.series["lr_effective"].mean).any(axis=1).argmax())


def _line(course: Course, name: str) -> tuple[Floats, Floats]:
    """x and y: of steps that share a point the least and the greatest in their order, so that a jump is one where it was."""
    thinned, row = course.series[name], _row(course)
    x = np.repeat(thinned.step + (course.ahead or 0), 2)
    x[1::2] += thinned.width // 2
    low, high, rising = thinned.low[row], thinned.high[row], thinned.rising[row]
    y = np.stack([np.where(rising, low, high), np.where(rising, high, low)], axis=1).ravel()
    return x, y


def _answer(scheduled: Floats, used: Floats) -> str:
    at = int(np.flatnonzero(np.isfinite(used))[-1])
    now, planned = used[at], scheduled[at]
    if abs(now - planned) <= SAME * abs(planned):
        return text("the steps use {now} now, as scheduled", now=number(now))
    if not planned:
        return text("the steps use {now} now; the schedule says {planned}", now=number(now), planned=number(planned))
    times = number(now / planned)
    return text(
        "the steps use {now} now, {times} x what the schedule says ({planned})",
        now=number(now),
        times=times,
        planned=number(planned),
    )


def draw(course: Course) -> Figure:
    scheduled, used = _rates(course)
    figure, axes = drawn_over_steps(course, HEIGHT_IN)
    logarithmic = scaled(axes, np.concatenate([scheduled, used]))
    rate = text("learning rate")
    axes.set_ylabel(text("{rate}, log scale", rate=rate) if logarithmic else rate)
    if np.allclose(scheduled, used, rtol=SAME, atol=0, equal_nan=True):
        label = text("scheduled, and used by the steps")
        axes.plot(*_line(course, "lr_effective"), color=inks.SERIES[0], linewidth=2, label=label)
    else:
        label = text("scheduled: what the program knows")
        axes.plot(*_line(course, "lr"), color=inks.FAINT, linewidth=1.6, linestyle=(0, (5, 2)), label=label)
        label = text("used by the steps")
        axes.plot(*_line(course, "lr_effective"), color=inks.SERIES[1], linewidth=2, label=label)
    figure.legend(loc="outside upper right", ncols=2)
    return figure
