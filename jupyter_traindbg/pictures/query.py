"""The answer to a query in SQL: a curve for each of its numbers where they stand in a row, by step or by time, else bars."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..errors import NoTarget
from ..language import counted, pgettext, text
from ..model import Sketch, SqlColumn, SqlRows
from ..render.column_units import is_numeric, unit_of, writer
from . import inks
from .canvas import new_figure
from .fitted import elided
from .told import Told

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw", "tell"]

LABELS = ("rank", "pid", "step", "tid", "line", "depth", "param_group", "optimizer")
"""Numbers that name something, and measure nothing."""
FEWEST_IN_A_ROW = 3
MOST_PANELS, MOST_BARS, MOST_RANKS = 4, 32, len(inks.SERIES)
PANEL_IN, BAR_IN, AXIS_IN = 2.2, 0.25, 0.7
LABEL_WIDTH = 40
UNITS = {
    "s": ((1e-6, "µs"), (1e-3, "ms"), (1.0, "s"), (60.0, "min"), (3600.0, "h")),
    "bytes": tuple((1024.0**n, name) for n, name in enumerate(("B", "KiB", "MiB", "GiB", "TiB"))),
}


@dataclass(frozen=True)
class _Shown:
    """What is drawn: measures as columns, over the column `x` for each of the ranks, or as bars called by the columns `names`."""

    measures: Sequence[int]
    x: int | None
    rank: int | None
    names: Sequence[int]
    left_out: Sequence[str]


def tell(result: SqlRows) -> Told:
    """Raises `NoTarget` where there is no number to draw."""
    shown = _shown(result)
    title = elided(" ".join(result.query.split()), 80)
    names = ", ".join(result.columns[n].name for n in shown.measures)
    words = [_in_words(result, shown)]
    details = [text("not drawn: {columns}", columns=pgettext("list", ", ").join(shown.left_out))]
    first = [_number(row[shown.measures[0]]) for row in result.rows]
    return Told(title, words, [Sketch(names, first, words[0])], details if shown.left_out else ())


def _in_words(result: SqlRows, shown: _Shown) -> str:
    column = result.columns[shown.measures[0]]
    write = writer(unit_of(column))
    known = [(value, n) for n, row in enumerate(result.rows) if math.isfinite(value := _number(row[shown.measures[0]]))]
    if not known:
        return text("no finite {column}", column=column.name)
    (low, _), (high, at) = min(known), max(known)
    if low == high:
        return f"{column.name} {write(low)}"
    most = f" ({_label(result, shown, at)})" if _label(result, shown, at) else ""
    return text("{column} {low} to {high}{most}", column=column.name, low=write(low), high=write(high), most=most)


def draw(result: SqlRows) -> Figure:
    shown = _shown(result)
    return _curves(result, shown) if shown.x is not None else _bars(result, shown)


# --- what is drawn ---------------------------------------------------------------------------------------------------


def _shown(result: SqlRows) -> _Shown:
    columns = result.columns
    numeric = [n for n, column in enumerate(columns) if is_numeric(column)]
    measures = [n for n in numeric if columns[n].name not in LABELS and unit_of(columns[n]) != "moment"]
    if not result.rows or not numeric:
        raise NoTarget(
            text("there is no number in the answer to draw"),
            text("select one beside what it is of: `select rank, avg(data_wait_s) from steps group by rank`"),
        )
    rank = next((n for n in numeric if columns[n].name == "rank"), None)
    x = next((n for n in numeric if n != rank and _in_a_row(result, n, rank)), None)
    measures = [n for n in measures if n != x] or [n for n in numeric if n not in (x, rank)] or numeric
    names = [n for n in range(len(columns)) if n not in measures and columns[n].name != "not_available"]
    left_out = [columns[n].name for n in measures[MOST_PANELS:]]
    return _Shown(measures[:MOST_PANELS], x if len(numeric) > 1 else None, rank, names, left_out)


def _in_a_row(result: SqlRows, column: int, rank: int | None) -> bool:
    """Whether `column` is a moment or a whole number that rises from row to row, of each rank by itself: the others are drawn over it."""
    told = result.columns[column]
    if unit_of(told) != "moment" and ("INT" not in told.type or "(" in told.name):
        return False
    by_rank = _by_rank(result, rank)
    values = [[_number(row[column]) for row in rows] for rows in by_rank.values()]
    return all(len(of) >= FEWEST_IN_A_ROW and all(a < b for a, b in pairwise(of)) for of in values)


def _by_rank(result: SqlRows, rank: int | None) -> dict[Any, list[Sequence[Any]]]:
    found: dict[Any, list[Sequence[Any]]] = {}
    for row in result.rows:
        found.setdefault(None if rank is None else row[rank], []).append(row)
    return found


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else math.nan


def _label(result: SqlRows, shown: _Shown, row: int) -> str:
    named = [(result.columns[n].name, result.rows[row][n]) for n in shown.names]
    return ", ".join(str(value) if isinstance(value, str) else f"{name} {value}" for name, value in named)


# --- drawing ---------------------------------------------------------------------------------------------------------


def _curves(result: SqlRows, shown: _Shown) -> Figure:
    assert shown.x is not None
    figure = new_figure(PANEL_IN * len(shown.measures) + AXIS_IN)
    panels = figure.subplots(len(shown.measures), 1, sharex=True, squeeze=False)[:, 0]
    by_rank = list(_by_rank(result, shown.rank).items())[:MOST_RANKS]
    for axes, n in zip(panels, shown.measures, strict=True):
        for (rank, rows), colour in zip(by_rank, inks.SERIES, strict=False):
            xs, ys = [_number(row[shown.x]) for row in rows], [_number(row[n]) for row in rows]
            axes.plot(xs, ys, color=colour, label=None if rank is None else f"rank {rank}")
        _scale(axes.yaxis, result.columns[n])
        axes.set_title(elided(result.columns[n].name, 80), loc="left", fontsize=9)
    panels[-1].set_xlabel(elided(result.columns[shown.x].name, 80))
    _scale(panels[-1].xaxis, result.columns[shown.x])
    if len(by_rank) > 1:
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=len(by_rank))
    return figure


def _bars(result: SqlRows, shown: _Shown) -> Figure:
    rows = result.rows[:MOST_BARS]
    figure = new_figure(BAR_IN * max(3, len(rows)) + AXIS_IN)
    panels = figure.subplots(1, len(shown.measures), sharey=True, squeeze=False)[0]
    for axes, n in zip(panels, shown.measures, strict=True):
        column = result.columns[n]
        values = [_number(row[n]) for row in rows]
        axes.barh(range(len(rows)), [v if math.isfinite(v) else 0.0 for v in values], height=0.66, color=inks.SERIES[0])
        _scale(axes.xaxis, column)
        axes.set_title(elided(column.name, LABEL_WIDTH), loc="left", fontsize=9)
        axes.grid(visible=False, axis="y")
    _called(panels[0], [_label(result, shown, n) for n in range(len(rows))])
    if left := len(result.rows) - len(rows):
        figure.supxlabel(counted("and {n:,} more row", "and {n:,} more rows", left), fontsize=8, color=inks.FAINT)
    return figure


def _called(axes: Axes, labels: Sequence[str]) -> None:
    axes.set_yticks(range(len(labels)), [elided(label, LABEL_WIDTH) for label in labels], color=inks.INK)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(labels) - 0.4, -0.6)


def _scale(axis: Any, column: SqlColumn) -> None:
    """In the unit of the column, with few ticks: words take room."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(5))
    unit = unit_of(column)
    write = writer(unit) if unit == "moment" else _written(axis.get_majorticklocs(), UNITS.get(unit, ((1.0, ""),)))
    axis.set_major_formatter(lambda value, _: write(value))


def _written(ticks: Iterable[float], units: Sequence[tuple[float, str]]) -> Callable[[float], str]:
    """How to write all of `ticks`: in one unit, with as many decimals as they need."""
    known = sorted(float(tick) for tick in ticks)
    most = max(map(abs, known), default=0.0)
    scale, name = next((unit for unit in reversed(units) if most >= unit[0]), units[0])
    near = min((b - a for a, b in pairwise(known)), default=1.0) / scale / 100
    decimals = next((n for n in range(7) if all(abs(round(t / scale, n) - t / scale) <= near for t in known)), None)
    form = ",.3g" if decimals is None else f",.{decimals}f"
    return lambda value: f"{value / scale:{form}} {name}".strip() if value else "0"
