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
    title = text("collectives", "集合通信")
    if data.ranks:
        title += text(" of ", "：") + ranks_words([record.rank for record in data.ranks])
    said = [line for panel in shown.panels for line in _of_panel(panel)]
    answer = data.findings[0].title if data.findings else said[0] if said else _quiet(data, shown)
    details = [line for line in said if line.casefold() not in answer.casefold()]
    if shown.more:
        details.append(text(f"ranks wait in {shown.more} more groups", f"另有 {shown.more} 个进程组中有 rank 在等待"))
    if data.missing:
        who = ranks_words(data.missing)
        details.append(text(f"{who}: no record, and nothing that could be asked", f"{who}：没有记录，也无法询问"))
    if shown.panels and any(call.p2p for record in data.ranks for call in record.calls):
        details.append(text("sends and receives are not in the picture", "点对点通信（send、recv）不在图中"))
    return Told(title, [answer], details=details)


def _quiet(data: Collectives, shown: Grid) -> str:
    return _all_done(shown.panels[0]) if shown.panels else _nothing(data)


def _nothing(data: Collectives) -> str:
    """Why there is nothing to draw."""
    calls = [(record.rank, call) for record in data.ranks for call in record.calls]
    if not calls:
        return text("no record of collectives", "没有集合通信的记录")
    waiting = sorted({rank for rank, call in calls if call.state != DONE})
    only = text(
        "only sends and receives are recorded, no collectives", "只有点对点通信（send、recv）的记录，没有集合通信"
    )
    wait = text("waits" if len(waiting) == 1 else "wait", "")
    return only + (
        text(f"; {ranks_words(waiting)} {wait} in one", f"；{ranks_words(waiting)} 正在等待") if waiting else ""
    )


def _all_done(panel: Panel) -> str:
    if any(cell is not Cell.COMPLETED for row in panel.rows for cell in row.cells[-1:]) or panel.more:
        return text(f"nobody waits in {_group(panel)}", f"没有 rank 在{_group(panel)}中等待")
    n = panel.numbers[-1]
    return text(
        f"all ranks have completed everything up to #{n} of {_group(panel)}",
        f"所有 rank 均已完成{_group(panel)}第 {n} 号及之前的全部调用",
    )


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
        yield text(f"{who} issued something else as {call} of {group}", f"{who} 在{group}的 {call} 处发出了不同的调用")
    elif waiting and absent:
        who, whom = ranks_words(absent), ranks_words(waiting)
        has, wait = ("has" if len(absent) == 1 else "have"), ("waits" if len(waiting) == 1 else "wait")
        yield text(
            f"{who} {has} not issued {call} of {group}, in which {whom} {wait}",
            f"{who} 没有发出{group}的 {call}，{whom} 在其中等待",
        )
    elif waiting:
        whom, wait = ranks_words(waiting), "waits" if len(waiting) == 1 else "wait"
        yield text(f"{whom} {wait} in {call} of {group}", f"{whom} 在{group}的 {call} 中等待")
    for row in panel.rows:
        if row.blamed and row.place:
            who, be = ranks_words(row.ranks), "is" if len(row.ranks) == 1 else "are"
            yield text(f"{who} {be} at {row.place}", f"{who} 位于 {row.place}")


def _group(panel: Panel) -> str:
    if panel.family == "default group":
        return text("the default group", "默认进程组")
    name = _name(panel)
    return text(f"group {name} of {ranks_words(panel.ranks)}", f"进程组 {name}（{ranks_words(panel.ranks)}）")


def _name(panel: Panel) -> str:
    if panel.family == "default group":
        return text("default group", "默认进程组")
    return panel.family if panel.family.endswith(panel.name) else f"{panel.family} ({panel.name})"


def _call(panel: Panel, column: int) -> str:
    call = panel.calls[column]
    return f"{call.op} #{panel.numbers[column]}" if call else f"#{panel.numbers[column]}"


def _sizes(call: Collective | None) -> str:
    """``[1000] Float``; of several tensors, their number."""
    sizes = (call.input_sizes or call.output_sizes) if call else ()
    shape = f"[{', '.join(map(str, sizes[0]))}]" if len(sizes) == 1 else ""
    if len(sizes) > 1:
        shape = text(f"{len(sizes)} tensors", f"{len(sizes)} 个张量")
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
        Cell.COMPLETED: text("completed", "已完成"),
        Cell.WAITS: text("issued, waits", "已发出，等待中"),
        Cell.DIFFERENT: text("issued something else", "发出了不同的调用"),
        Cell.ABSENT: text("never issued", "未发出"),
        Cell.LATER: text("not reached yet", "尚未到达"),
        Cell.UNKNOWN: text("not known", "未知"),
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
        who = text(f"{len(panel.more)} more ranks, in other states", f"另有 {len(panel.more)} 个 rank，状态各异")
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
        return text("no record", "没有记录")
    instead = f"{row.instead.op} {_sizes(row.instead)}".strip() if row.instead else ""
    waited = "" if row.waited_s is None else text(f"waits {duration(row.waited_s)}", f"等待 {duration(row.waited_s)}")
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
