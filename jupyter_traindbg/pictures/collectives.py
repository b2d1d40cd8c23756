"""Collectives: ranks by calls. Who has completed each of the last calls of a process group, who waits in it, who never issued it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..language import text
from ..model import Collective, Collectives
from ..render.collective_rows import DONE
from ..words.durations import duration
from ..words.ranks import ranks_words
from . import inks
from .canvas import WIDTH_IN, new_figure
from .collective_grid import Cell, Grid, Panel, Row, grid
from .fitted import elided, width
from .told import Told

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw", "tell"]

COLOURS = {
    Cell.COMPLETED: inks.GOOD,
    Cell.WAITS: inks.WARN,
    Cell.DIFFERENT: inks.BAD,
    Cell.ABSENT: inks.BAD,
    Cell.LATER: inks.FAINT,
    Cell.UNKNOWN: inks.FAINT,
}
CELL_IN, ROW_IN, LABEL_IN, EDGE_IN = 0.205, 0.235, 2.05, 0.12
HEAD_IN, FOOT_IN, LEGEND_IN = 0.62, 0.38, 0.36
"""Of a panel, over and under its rows; and over all of them."""
LABEL, CALL = 24, 72
"""Columns of text that there is room for: beside a row, and over the columns."""
LETTER_IN = 0.0605
"""A column of the text behind a row."""


# --- in words ------------------------------------------------------------------------------------------------------


def tell(data: Collectives) -> Told:
    shown = grid(data)
    title = text("collectives")
    if data.ranks:
        title += text(" of ") + ranks_words([record.rank for record in data.ranks])
    said = [line for panel in shown.panels for line in _of_panel(panel)]
    answer = data.findings[0].title if data.findings else said[0] if said else _quiet(data, shown)
    details = [line for line in said if line.casefold() not in answer.casefold()]
    if shown.more:
        details.append(text("ranks wait in {more} more groups", more=shown.more))
    if data.missing:
        who = ranks_words(data.missing)
        details.append(text("{who}: no record, and nothing that could be asked", who=who))
    if shown.panels and any(call.p2p for record in data.ranks for call in record.calls):
        details.append(text("sends and receives are not in the picture"))
    return Told(title, [answer], details=details)


def _quiet(data: Collectives, shown: Grid) -> str:
    return _all_done(shown.panels[0]) if shown.panels else _nothing(data)


def _nothing(data: Collectives) -> str:
    """Why there is nothing to draw."""
    calls = [(record.rank, call) for record in data.ranks for call in record.calls]
    if not calls:
        return text("no record of collectives")
    waiting = sorted({rank for rank, call in calls if call.state != DONE})
    only = text("only sends and receives are recorded, no collectives")
    wait = "waits" if len(waiting) == 1 else "wait"
    return only + (text("; {waiting} {wait} in one", waiting=ranks_words(waiting), wait=wait) if waiting else "")


def _all_done(panel: Panel) -> str:
    if any(cell is not Cell.COMPLETED for row in panel.rows for cell in row.cells[-1:]) or panel.more:
        return text("nobody waits in {group}", group=_group(panel))
    n = panel.numbers[-1]
    return text("all ranks have completed everything up to #{n} of {group}", n=n, group=_group(panel))


def _of_panel(panel: Panel) -> Iterator[str]:
    """Who waits in what, and for whom; nothing where nobody waits."""
    at = panel.telling
    if at is None:
        return
    waiting, absent = panel.ranks_at(at, Cell.WAITS), panel.ranks_at(at, Cell.ABSENT)
    different = panel.ranks_at(at, Cell.DIFFERENT)
    call = _call(panel, at)
    group = _group(panel)
    if different:
        who = ranks_words(different)
        yield text("{who} issued something else as {call} of {group}", who=who, call=call, group=group)
    elif waiting and absent:
        who, whom = ranks_words(absent), ranks_words(waiting)
        has, wait = ("has" if len(absent) == 1 else "have"), ("waits" if len(waiting) == 1 else "wait")
        yield text(
            "{who} {has} not issued {call} of {group}, in which {whom} {wait}",
            who=who,
            has=has,
            call=call,
            group=group,
            whom=whom,
            wait=wait,
        )
    elif waiting:
        whom, wait = ranks_words(waiting), "waits" if len(waiting) == 1 else "wait"
        yield text("{whom} {wait} in {call} of {group}", whom=whom, wait=wait, call=call, group=group)
    for row in panel.rows:
        if row.blamed and row.place:
            who, be = ranks_words(row.ranks), "is" if len(row.ranks) == 1 else "are"
            yield text("{who} {be} at {place}", who=who, be=be, place=row.place)


def _group(panel: Panel) -> str:
    if panel.family == "default group":
        return text("the default group")
    name = _name(panel)
    return text("group {name} of {ranks}", name=name, ranks=ranks_words(panel.ranks))


def _name(panel: Panel) -> str:
    if panel.family == "default group":
        return text("default group")
    return panel.family if panel.family.endswith(panel.name) else f"{panel.family} ({panel.name})"


def _call(panel: Panel, column: int) -> str:
    call = panel.calls[column]
    return f"{call.op} #{panel.numbers[column]}" if call else f"#{panel.numbers[column]}"


def _sizes(call: Collective | None) -> str:
    """``[1000] Float``; of several tensors, their number."""
    sizes = (call.input_sizes or call.output_sizes) if call else ()
    shape = f"[{', '.join(map(str, sizes[0]))}]" if len(sizes) == 1 else ""
    if len(sizes) > 1:
        shape = text("{count} tensors", count=len(sizes))
    return f"{shape} {', '.join(dict.fromkeys(call.dtypes))}".strip() if call else ""


# --- as a figure ---------------------------------------------------------------------------------------------------


def draw(data: Collectives) -> Figure:
    """Drawn in inches, from the top left, on one sheet."""
    shown = grid(data).panels
    height = LEGEND_IN + sum(_height(panel) for panel in shown) if shown else 0.8
    figure = new_figure(height)
    figure.set_layout_engine("none")
    sheet = figure.add_axes((0, 0, 1, 1))
    sheet.set(xlim=(0, WIDTH_IN), ylim=(height, 0))
    sheet.axis("off")
    if not shown:
        sheet.text(EDGE_IN, height / 2, elided(_nothing(data), 120), color=inks.FAINT, va="center")
        return figure
    _legend(sheet, {cell for panel in shown for row in panel.rows for cell in row.cells})
    top = LEGEND_IN
    for panel in shown:
        _draw_panel(sheet, panel, top)
        top += _height(panel)
    return figure


def _height(panel: Panel) -> float:
    return HEAD_IN + FOOT_IN + ROW_IN * (len(panel.rows) + bool(panel.more))


def _legend(sheet: Any, seen: set[Cell]) -> None:
    names = {
        Cell.COMPLETED: text("completed"),
        Cell.WAITS: text("issued, waits"),
        Cell.DIFFERENT: text("issued something else"),
        Cell.ABSENT: text("never issued"),
        Cell.LATER: text("not reached yet"),
        Cell.UNKNOWN: text("not known"),
    }
    left = LABEL_IN
    for cell, name in names.items():
        if cell in seen:
            _symbols(sheet, cell, [(left, LEGEND_IN / 2 + 0.04)])
            sheet.text(left + 0.16, LEGEND_IN / 2 + 0.04, name, color=inks.FAINT, fontsize=8, va="center")
            left += 0.45 + 0.075 * width(name)


def _draw_panel(sheet: Any, panel: Panel, top: float) -> None:
    sheet.plot([EDGE_IN, WIDTH_IN - EDGE_IN], [top + 0.03] * 2, color=inks.LINE, linewidth=0.7)
    sheet.text(EDGE_IN, top + 0.2, elided(f"{_name(panel)} · {ranks_words(panel.ranks)}", 100), va="center")
    rows_top, columns = top + HEAD_IN, [LABEL_IN + CELL_IN * i for i in range(len(panel.numbers))]
    middles = [rows_top + ROW_IN * (n + 0.5) for n in range(len(panel.rows))]
    bottom = rows_top + ROW_IN * (len(panel.rows) + bool(panel.more))
    _telling(sheet, panel, columns, (rows_top, bottom))
    for cell in Cell:
        at = [
            (x, y)
            for y, row in zip(middles, panel.rows, strict=True)
            for x, own in zip(columns, row.cells, strict=True)
            if own is cell
        ]
        if at:
            _symbols(sheet, cell, at)
    behind = columns[-1] + CELL_IN
    room = int((WIDTH_IN - EDGE_IN - behind) / LETTER_IN)
    for middle, row in zip(middles, panel.rows, strict=True):
        _label(sheet, row, middle)
        sheet.text(behind, middle, elided(_behind(row), room), color=inks.FAINT, fontsize=7.5, va="center")
    if panel.more:
        who = text("{count} more ranks, in other states", count=len(panel.more))
        sheet.text(EDGE_IN + 0.14, bottom - ROW_IN / 2, who, color=inks.FAINT, fontsize=8, va="center")
    for number, x in zip(panel.numbers, columns, strict=True):
        if number % 5 == 0 or len(columns) <= 5:
            sheet.text(x, bottom + 0.13, str(number), color=inks.FAINT, fontsize=7, ha="center", va="center")


def _telling(sheet: Any, panel: Panel, columns: Sequence[float], span: tuple[float, float]) -> None:
    """The call that matters is named over its column, and so is what others issued in its place."""
    at = panel.telling
    if at is None:
        return
    x, (top, bottom) = columns[at], span
    sheet.fill_between(
        [x - CELL_IN / 2, x + CELL_IN / 2], top - 0.03, bottom + 0.03, color=inks.LINE, alpha=0.5, linewidth=0
    )
    words = f"{_call(panel, at)}  {_sizes(panel.calls[at])}".strip()
    right = at > len(columns) / 2
    sheet.text(
        x + (CELL_IN if right else -CELL_IN) / 2,
        top - 0.14,
        elided(words, CALL),
        fontsize=8,
        ha="right" if right else "left",
        va="center",
    )


def _label(sheet: Any, row: Row, middle: float) -> None:
    words = ranks_words(row.ranks)
    if row.blamed:
        sheet.plot(
            [EDGE_IN + 0.05], [middle], marker="D", markersize=4.5, color=inks.BAD, linestyle="none", label="blamed"
        )
    sheet.text(EDGE_IN + 0.14, middle, elided(words, LABEL), fontsize=8, va="center")


def _behind(row: Row) -> str:
    """What stands behind a row: what was issued in another's place, for how long it waits, where it is."""
    if not row.recorded:
        return text("no record")
    instead = f"{row.instead.op} {_sizes(row.instead)}".strip() if row.instead else ""
    waited = "" if row.waited_s is None else text("waits {waited_s}", waited_s=duration(row.waited_s))
    return " · ".join(filter(None, [instead, waited, row.place]))


def _symbols(sheet: Any, cell: Cell, at: Sequence[tuple[float, float]]) -> None:
    """Each state has a shape of its own: a square, a clock, a diamond, a dashed square with a cross, one without, a dot."""
    xs, ys = zip(*at, strict=True)
    drawn: dict[str, Any] = {"color": COLOURS[cell], "linestyle": "none", "markeredgewidth": 1.2, "label": cell.value}
    if cell in (Cell.ABSENT, Cell.LATER):
        sheet.add_patch(_dashed(cell, at))
    if cell is Cell.COMPLETED:
        sheet.plot(xs, ys, marker="s", markersize=7, **drawn)
    elif cell is Cell.WAITS:
        sheet.plot(xs, ys, marker=_clock(), markersize=10, fillstyle="none", **drawn)
    elif cell is Cell.DIFFERENT:
        sheet.plot(xs, ys, marker="D", markersize=8.5, **drawn)
    elif cell is Cell.ABSENT:
        sheet.plot(xs, ys, marker="x", markersize=5.5, **drawn)
    elif cell is Cell.UNKNOWN:
        sheet.plot(xs, ys, marker=".", markersize=3, **drawn)


def _clock() -> Any:
    from matplotlib.path import Path

    return Path.make_compound_path(Path.unit_circle(), Path([(0, 0.62), (0, 0), (0.45, 0)]))


def _dashed(cell: Cell, at: Sequence[tuple[float, float]]) -> Any:
    """Squares, as one path."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    half = CELL_IN / 2 - (0.025 if cell is Cell.ABSENT else 0.045)
    corners = ((-half, -half), (half, -half), (half, half), (-half, half), (-half, -half))
    squares = [Path([(x + dx, y + dy) for dx, dy in corners]) for x, y in at]
    return PathPatch(
        Path.make_compound_path(*squares),
        fill=False,
        edgecolor=COLOURS[cell],
        linewidth=0.8 if cell is Cell.ABSENT else 0.5,
        linestyle=(0, (2, 1.5)),
    )
