"""Stacked bars of memory against what there is of it: the size of a device is a marked line, which a bar that is too long runs over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..language import text
from ..render.units import number
from . import inks
from .canvas import new_figure
from .fitted import elided

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["HATCH", "Bar", "Panel", "Part", "gib", "key", "stacked"]

GIB = 2**30
ROW_IN, AXIS_IN, LEGEND_IN = 0.25, 0.5, 0.35
"""Heights: of a bar with its distance, of an axis with its words, of the legend."""
FEW, FEW_ROW_IN = 4, 0.33
"""So few bars may be higher."""
MARK = 0.9
"""Of a row, what the size of a device has above its bars."""
FAR, BEYOND = 8.0, 1.5
"""A device so many times larger than all its bars is not on the axis, where they could not be told apart; then that ends so far behind
them, and no bar looks as if it was full.
"""
SEEN = 0.002
"""A smaller share of the longest bar is not seen, and needs no place in the legend."""
HATCH = "/////"


@dataclass(frozen=True)
class Part:
    """One part of all bars. ``pale``: taken, and not in use."""

    label: str
    colour: str
    pale: bool = False


@dataclass(frozen=True)
class Bar:
    """``held``: bytes, one figure for each part. ``words`` stand behind it; ``capacity``: the bytes of its device, where they are known."""

    label: str
    held: Sequence[float]
    words: str
    capacity: float | None = None

    @property
    def over(self) -> float:
        """By how many bytes it is larger than its device."""
        return 0.0 if self.capacity is None else max(0.0, sum(self.held) - self.capacity)


@dataclass(frozen=True)
class Panel:
    """Bars on one axis."""

    title: str
    bars: Sequence[Bar]


def stacked(parts: Sequence[Part], panels: Sequence[Panel]) -> Figure:
    """A figure as high as its bars need. Parts that no bar has are left out of the legend."""
    places = [_places(panel.bars) for panel in panels]
    heights = [rows[-1] + 0.6 for rows in places]
    row_in = FEW_ROW_IN if sum(map(len, places)) <= FEW else ROW_IN
    figure = new_figure(row_in * sum(heights) + AXIS_IN * len(panels) + LEGEND_IN)
    figure.set_layout_engine("constrained", h_pad=0.08)
    drawn = figure.subplots(len(panels), 1, height_ratios=heights, squeeze=False)[:, 0]
    for axes, panel, rows in zip(drawn, panels, places, strict=True):
        _panel(axes, parts, panel, rows)
        axes.set_title(f"{panel.title} · GiB", loc="left", fontsize=9)
        axes.set_ylim(rows[-1] + 0.6, 0)
    held = [i for i in range(len(parts)) if any(_seen(panel, i) for panel in panels)]
    figure.legend(
        handles=[key(parts[i].colour, parts[i].label, pale=parts[i].pale) for i in held],
        loc="outside upper right",
        ncols=len(parts),
        handlelength=1.2,
        columnspacing=1.4,
    )
    return figure


def key(colour: str, label: str, *, pale: bool = False) -> object:
    """An entry of a legend."""
    from matplotlib.patches import Patch

    if pale:
        return Patch(facecolor="none", edgecolor=colour, hatch=HATCH, linewidth=0.6, label=label)
    return Patch(facecolor=colour, label=label)


def gib(size: float) -> str:
    """Bytes in the one unit of all axes: ``71.2 GiB``."""
    return f"{number(size / GIB)} GiB"


# --- one axis --------------------------------------------------------------------------------------------------------


def _longest(panel: Panel) -> float:
    return max(sum(bar.held) for bar in panel.bars) or 1.0


def _seen(panel: Panel, part: int) -> bool:
    return max(bar.held[part] for bar in panel.bars) > SEEN * _longest(panel)


def _panel(axes: Axes, parts: Sequence[Part], panel: Panel, rows: Sequence[float]) -> None:
    longest = _longest(panel)
    sizes = [bar.capacity for bar in panel.bars if bar.capacity is not None]
    near = [size for size in sizes if size <= FAR * longest]
    ends = [longest, *near, *([BEYOND * longest] * (len(near) < len(sizes)))]
    axes.set_xlim(0, max(ends) * 1.03 / GIB)
    left = [0.0] * len(rows)
    for i, part in enumerate(parts):
        widths = [bar.held[i] / GIB for bar in panel.bars]
        look: dict[str, Any] = {"color": part.colour, "edgecolor": inks.PAPER, "linewidth": 0.6}
        if part.pale:
            look = {"facecolor": "none", "edgecolor": part.colour, "linewidth": 0.6, "hatch": HATCH}
        if any(widths):
            axes.barh(rows, widths, left=left, height=0.66, **look)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    for bar, row in zip(panel.bars, rows, strict=True):
        _beside(axes, bar, row)
    for same in _runs(panel.bars):
        _mark(axes, panel.bars[same[0]].capacity, [rows[i] for i in same])
    axes.set_yticks(rows, [elided(bar.label, 40) for bar in panel.bars], color=inks.INK)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_formatter(lambda value, _: number(value))
    axes.grid(visible=False, axis="y")


def _beside(axes: Axes, bar: Bar, row: float) -> None:
    """Its words in a column behind all bars; what is too much is hatched."""
    if bar.over and bar.capacity is not None:
        looks: list[dict[str, Any]] = [
            {"edgecolor": inks.PAPER, "hatch": HATCH, "linewidth": 0},
            {"edgecolor": inks.BAD, "linewidth": 1.6},
        ]
        for look in looks:
            axes.barh(row, bar.over / GIB, left=bar.capacity / GIB, height=0.66, facecolor="none", **look)
    axes.annotate(
        bar.words,
        (1, row),
        xycoords=axes.get_yaxis_transform(),
        xytext=(8, 0),
        textcoords="offset points",
        va="center",
        fontsize=8,
        color=inks.BAD if bar.over else inks.INK,
        annotation_clip=False,
    )


def _mark(axes: Axes, capacity: float | None, rows: Sequence[float]) -> None:
    """The size of the device that bars in neighbouring rows have."""
    if capacity is None:
        return
    top = rows[0] - 0.5
    look: dict[str, Any] = {"va": "bottom", "fontsize": 9}
    if capacity / GIB > axes.get_xlim()[1]:
        beyond = text("of {capacity} →", capacity=gib(capacity))
        axes.text(1, top, beyond, transform=axes.get_yaxis_transform(), ha="right", **look)
        return
    axes.vlines(capacity / GIB, top, rows[-1] + 0.5, color=inks.INK, linewidth=1.5)
    axes.text(capacity / GIB, top, gib(capacity), ha="center", **look)


def _runs(bars: Sequence[Bar]) -> list[list[int]]:
    """Neighbouring bars whose devices are, as it is written, of one size."""
    runs: list[list[int]] = []
    for i in range(len(bars)):
        if runs and _size(bars[i]) == _size(bars[i - 1]):
            runs[-1].append(i)
        else:
            runs.append([i])
    return runs


def _size(bar: Bar) -> str:
    return "" if bar.capacity is None else gib(bar.capacity)


def _places(bars: Sequence[Bar]) -> list[float]:
    """Where each bar stands, in rows from the top: there is room for a size above each run."""
    places: list[float] = []
    at = 0.0
    for same in _runs(bars):
        at += 0.0 if bars[same[0]].capacity is None else MARK
        places += [at + 0.5 + n for n in range(len(same))]
        at += len(same)
    return places
