"""The figure of a log's course: a lane for each writer, over it the stages and the loss, below it the lines that matter."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..language import text
from ..model import LogCourse, LogMark
from . import inks
from .canvas import new_figure
from .log_axis import Across, draw_metric, draw_stages

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Labels", "figure", "told_apart"]

LANE_IN, FLAG_IN, STAGE_IN, METRIC_IN, EVENT_IN = 0.33, 0.27, 0.2, 0.9, 0.225
LEGEND_IN, AXIS_IN, TITLE_IN, GAP_IN = 0.3, 0.42, 0.2, 0.06
"""Heights: of the rows of the figure, and of what stands beside them."""
BASE = 0.36
"""Of a lane, how far its floor is below its middle."""
LEVELS = 8
"""Of how densely lines were written."""
MOST_EVENTS = 8
APART = 0.02
"""Of the axis, the least distance of two numbered marks in a lane."""
_COLOURS = {"cause": inks.BAD, "finding": inks.SERIES[3], "consequence": inks.WARN}
_SHAPES = {"cause": "o", "finding": "o", "consequence": "s"}


@dataclass(frozen=True)
class Labels:
    """The words of a figure. ``unit``: so many seconds are one on the axis."""

    lanes: Sequence[str]
    events: Sequence[str]
    axis: str
    flag: str
    unit: float


def told_apart(course: LogCourse) -> list[tuple[float, int, LogMark]]:
    """The marks that are numbered and told below: the findings', and the first of each sort of consequence."""
    seen: set[tuple[str, str]] = set()
    kept = []
    for placed in sorted(course.marks, key=lambda m: m[2].role == "consequence"):
        mark = placed[2]
        if mark.role != "consequence" or (mark.role, mark.words) not in seen:
            seen.add((mark.role, mark.words))
            kept.append(placed)
    return sorted(kept[:MOST_EVENTS], key=lambda m: (m[0], m[2].line.number))


def figure(course: LogCourse, labels: Labels) -> Figure:
    heights = {
        "metric": METRIC_IN * bool(course.points),
        "stages": STAGE_IN * bool(course.stages),
        "lanes": LANE_IN * len(course.lanes) + FLAG_IN * bool(labels.flag),
        "events": EVENT_IN * len(labels.events),
    }
    heights = {name: height for name, height in heights.items() if height}
    made = new_figure(
        sum(heights.values()) + GAP_IN * len(heights) + LEGEND_IN + AXIS_IN + TITLE_IN * bool(course.points)
    )
    rows = made.subplots(len(heights), 1, height_ratios=list(heights.values()), squeeze=False)[:, 0]
    drawn: dict[str, Axes] = dict(zip(heights, rows, strict=True))
    made.set_layout_engine("constrained", h_pad=0.02, hspace=0.02)
    across = Across(course, labels.unit)
    _lanes(drawn["lanes"], course, labels, across)
    unnamed = draw_stages(drawn["stages"], course, across) if course.stages else []
    if course.points:
        draw_metric(drawn["metric"], course, across)
    if labels.events:
        _events(made, drawn["events"], course, labels.events)
    made.legend(
        handles=[*_keys(course), *unnamed], loc="outside upper right", ncols=8, handlelength=1.2, columnspacing=1.6
    )
    return made


# --- lanes ---------------------------------------------------------------------------------------------------------


def _lanes(axes: Axes, course: LogCourse, labels: Labels, across: Across) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    most = max(max(lane.written, default=0) for lane in course.lanes) or 1
    each = (across.last - across.first) / max(1, len(course.lanes[0].written))
    for y, lane in enumerate(course.lanes):
        heights = [math.ceil(LEVELS * math.sqrt(n / most)) / LEVELS for n in lane.written]
        outline = [(across.first + each * x, y + BASE - 2 * BASE * height) for x, height in _outline(heights)]
        axes.fill(*zip(*outline, strict=True), color=inks.SERIES[0], alpha=0.4, linewidth=0, label="written")
        axes.plot(
            [across.first + each * (n + 0.5) for n in lane.errors],
            [y] * len(lane.errors),
            marker="x", markersize=5, color=inks.BAD, linestyle="none", markeredgewidth=1.1, label="exceptions",
        )  # fmt: skip
    _marks(axes, course, across)
    top = -0.5 - (FLAG_IN / LANE_IN if labels.flag else 0.0)
    if labels.flag:
        _flag(axes, course, labels.flag, across)
    axes.set_ylim(len(course.lanes) - 0.5, top)
    axes.set_yticks(range(len(course.lanes)), labels.lanes)
    axes.tick_params(axis="y", length=0, labelcolor=inks.INK)
    axes.tick_params(axis="x", length=3)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    axes.hlines([y + BASE for y in range(len(course.lanes))], across.first, across.last, color=inks.LINE, linewidth=0.5)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=not course.by_clock))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.10g}"))
    axes.set_xlabel(labels.axis)
    across.limit(axes)


def _outline(heights: Sequence[float]) -> Iterator[tuple[float, float]]:
    """The corners of bars that stand side by side, from left to right."""
    before = 0.0
    yield 0, 0
    for n, height in enumerate([*heights, 0.0]):
        if height != before:
            yield n, before
            yield n, height
        before = height


def _marks(axes: Axes, course: LogCourse, across: Across) -> None:
    numbered = told_apart(course)
    for place, lane, mark in course.marks:
        if not any(mark is one for _, _, one in numbered):
            axes.plot(
                [across(place)],
                [lane],
                marker=_SHAPES[mark.role],
                markersize=5,
                color=_COLOURS[mark.role],
                linestyle="none",
                zorder=3,
            )
    for n, ((x, y), (_, _, mark)) in enumerate(zip(_spread(numbered, across), numbered, strict=True), 1):
        _number(axes, (x, y), mark, n)


def _number(axes: Axes, at: tuple[float, float], mark: LogMark, n: int) -> None:
    axes.plot(
        [at[0]], [at[1]], marker=_SHAPES[mark.role], markersize=10.5, color=_COLOURS[mark.role], linestyle="none", zorder=4,
        markeredgecolor=inks.PAPER, markeredgewidth=0.8, label=mark.role, clip_on=False,
    )  # fmt: skip
    axes.annotate(str(n), at, color=inks.PAPER, fontsize=7, ha="center", va="center_baseline", zorder=5)


def _spread(marks: Sequence[tuple[float, int, LogMark]], across: Across) -> list[tuple[float, int]]:
    """Where the numbers stand: at their places, or a little beside them, in their order, where others of the lane are too near."""
    least = APART * (across.last - across.first)
    at = [across(place) for place, _, _ in marks]
    of_lane: dict[int, list[int]] = {}
    for n, (_, lane, _) in enumerate(marks):
        of_lane.setdefault(lane, []).append(n)
    for own in of_lane.values():
        for before, n in pairwise(own):
            at[n] = max(at[n], at[before] + least)
        limit = across.last
        for n in reversed(own):
            at[n] = min(at[n], limit)
            limit = at[n] - least
    return [(x, lane) for x, (_, lane, _) in zip(at, marks, strict=True)]


def _flag(axes: Axes, course: LogCourse, words: str, across: Across) -> None:
    """Over all lanes, with a line down to the cause."""
    numbered = told_apart(course)
    n = next(n for n, (_, _, mark) in enumerate(numbered) if mark.role == "cause")
    x, lane = _spread(numbered, across)[n]
    right = across.share(x) > 0.5
    top = -0.5 - FLAG_IN / LANE_IN
    axes.plot([x, x], [top, lane], color=inks.BAD, linewidth=0.9, label="flag")
    axes.annotate(
        words, (x, top), (-5 if right else 5, -2), textcoords="offset points", ha="right" if right else "left", va="top",
        color=inks.BAD, fontsize=8.5,
    )  # fmt: skip


# --- below them, and the legend ----------------------------------------------------------------------------------


def _events(made: Figure, axes: Axes, course: LogCourse, events: Sequence[str]) -> None:
    """The numbered lines, one below the other, from the left edge of the figure."""
    from matplotlib.transforms import blended_transform_factory

    across = blended_transform_factory(made.transFigure, axes.transData)
    for n, (words, (_, _, mark)) in enumerate(zip(events, told_apart(course), strict=True), 1):
        y = n - 1
        axes.plot(
            [0.017], [y], marker=_SHAPES[mark.role], markersize=10, color=_COLOURS[mark.role], linestyle="none", transform=across,
            clip_on=False,
        ).pop().set_in_layout(False)  # fmt: skip
        digit = axes.text(
            0.017,
            y,
            str(n),
            transform=across,
            color=inks.PAPER,
            fontsize=7,
            ha="center",
            va="center_baseline",
        )
        said = axes.text(0.034, y, words, transform=across, fontsize=8, va="center_baseline")
        for one in (digit, said):
            one.set_in_layout(False)
    axes.set_ylim(len(events) - 0.4, -0.6)
    axes.axis("off")


def _keys(course: LogCourse) -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    def symbol(marker: str, colour: str, name: str) -> Any:
        return Line2D([], [], marker=marker, color=colour, linestyle="none", markersize=6, label=name)

    roles = {mark.role for _, _, mark in course.marks}
    lines = text("lines written") if course.whole else text("lines that were kept")
    keys = [Patch(color=inks.SERIES[0], alpha=0.4, linewidth=0, label=lines)]
    if any(lane.errors for lane in course.lanes):
        keys.append(symbol("x", inks.BAD, text("exceptions")))
    names = {
        "cause": text("the cause"),
        "finding": text("another finding"),
        "consequence": text("a consequence"),
    }
    keys += [symbol(_SHAPES[role], _COLOURS[role], name) for role, name in names.items() if role in roles]
    if any(not math.isfinite(value) for _, value in course.points):
        keys.append(symbol("v", inks.BAD, text("not finite")))
    return keys
