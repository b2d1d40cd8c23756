"""What stands over the lanes of a log's course, on the same axis: the stages of the job, and its loss."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from ..language import text
from ..model import LogCourse
from ..render.units import number
from . import inks
from .fitted import elided
from .scale import scaled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Across", "draw_metric", "draw_stages"]

NAMED = 0.011
"""Of the axis, what a letter of a stage's name takes."""
_STAGES = dict(zip(("save", "train", "rollout", "data", "init", "eval", "sync"), inks.SERIES[1:], strict=True))


class Across:
    """From the places of a course to its axis."""

    def __init__(self, course: LogCourse, unit: float) -> None:
        self._origin = course.first if course.by_clock else 0.0
        self._unit = unit
        self.first, self.last = self(course.first), self(course.last)

    def __call__(self, place: float) -> float:
        return (place - self._origin) / self._unit

    def share(self, at: float) -> float:
        return (at - self.first) / (self.last - self.first)

    def limit(self, axes: Axes) -> None:
        room = (self.last - self.first) * 0.012
        axes.set_xlim(self.first - room, self.last + room)


def draw_stages(axes: Axes, course: LogCourse, across: Across) -> list[Any]:
    """A band; the keys of those stages for whose names there is no room in it."""
    from matplotlib.patches import Patch

    starts = [across(place) for place, _ in course.stages]
    spans: dict[str, list[tuple[float, float]]] = {}
    for (_, stage), start, end in zip(course.stages, starts, [*starts[1:], across.last], strict=True):
        spans.setdefault(stage, []).append((start, end - start))
    unnamed = []
    for name, own in spans.items():
        axes.broken_barh(own, (-0.5, 1), facecolors=_STAGES[name], alpha=0.4, linewidth=0, label=name)
        wide = [(x, long) for x, long in own if long > NAMED * (len(name) + 1) * (across.last - across.first)]
        for x, long in wide:
            axes.text(x + long / 2, 0, name, fontsize=7.5, ha="center", va="center_baseline")
        if not wide:
            unnamed.append(Patch(color=_STAGES[name], alpha=0.4, linewidth=0, label=name))
    axes.set_ylim(-0.5, 0.5)
    axes.axis("off")
    across.limit(axes)
    return unnamed


def draw_metric(axes: Axes, course: LogCourse, across: Across) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

    xs = [across(place) for place, _ in course.points]
    ys = [value if math.isfinite(value) else math.nan for _, value in course.points]
    axes.plot(xs, ys, color=inks.SERIES[0], linewidth=1.3, label=course.metric)
    wide = scaled(axes, np.array(ys))
    for first, last in _broken(ys):
        axes.plot(
            [xs[first], xs[last]], [1.0, 1.0], marker="v", markersize=5, markevery=[0], color=inks.BAD, linewidth=2, clip_on=False,
            transform=axes.get_xaxis_transform(), label=text("not finite"),
        )  # fmt: skip
    axes.set_title(elided(course.metric, 40), loc="left", fontsize=8.5, color=inks.FAINT, pad=4)
    axes.yaxis.set_major_locator(LogLocator(numticks=5) if wide else MaxNLocator(4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: number(y)))
    axes.minorticks_off()
    axes.tick_params(axis="both", length=0)
    axes.tick_params(axis="x", labelbottom=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    across.limit(axes)


def _broken(values: Sequence[float]) -> Iterator[tuple[int, int]]:
    """The first and the last of each run that is not finite."""
    for broken, run in groupby(range(len(values)), key=lambda n: math.isnan(values[n])):
        if broken:
            own = list(run)
            yield own[0], own[-1]
