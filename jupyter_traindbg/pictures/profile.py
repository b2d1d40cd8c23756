"""A flame graph by source line: where the training thread of the slowest rank was seen, and of a usual one where these differ."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import NoTarget
from ..frames.tree import Branch, Tree, tree_of
from ..frames.whose import bare, line_of, short_place
from ..language import counted, text
from ..model import Frame, Profile, RankProfile
from ..render.clean import clean
from ..render.profile_ranks import busiest, pace_s, told_of
from ..render.units import percent
from ..words.durations import duration
from ..words.ranks import ranks_words
from . import inks
from .canvas import WIDTH_IN, new_figure
from .fitted import elided, width
from .told import Told

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw", "tell"]

DIFFER = 1.25
"""A rank whose steps take more times as long as the middle one's is drawn beside that."""
LEAST = 0.003
"""Of all looks: what was seen less often is no wider than a line."""
DEEPEST = 28
"""Rows of a panel. Runs of a library's frames are one, so that few programs need more."""
ROW_IN, EDGE_IN, HEAD_IN, LEGEND_IN, FOOT_IN = 0.225, 0.12, 0.34, 0.36, 0.08
GAP_IN = 0.008
"""Between neighbours, so that two of one colour are two."""
MARK_IN, PAD_IN = 0.035, 0.05
"""The bar at the left of the user's lines, and what is free beside a label."""
NARROWEST_IN = 0.3
"""Where no more than this is free, there is no label."""
NAMED = 6
"""Lines that the words name."""
SIZE = 7.5
OWN = inks.SERIES[1]


@dataclass(frozen=True)
class _Cell:
    """One branch in its place: from ``left`` on, in shares of all looks, in row ``row``."""

    branch: Branch
    left: float
    row: int

    @property
    def own(self) -> bool:
        return not self.branch.at.library


@dataclass(frozen=True)
class _Panel:
    rank: RankProfile
    cells: Sequence[_Cell]
    cut: bool
    """Whether there are deeper rows than are drawn."""

    @property
    def rows(self) -> int:
        return max(cell.row for cell in self.cells) + 1


# --- in words --------------------------------------------------------------------------------------------------------


def tell(data: Profile) -> Told:
    """Raises `NoTarget` where no stack was seen."""
    panels = _panels(data)
    first, *others = panels
    words = [_answer(first.rank)]
    for other in others:
        slow_s, usual_s = (duration(pace_s(rank) or 0.0) for rank in (first.rank, other.rank))
        usual = ranks_words([other.rank.rank])
        words.append(
            text(
                "its steps take {slow_s}, those of {usual}, which is drawn below as a usual one, {usual_s}",
                slow_s=slow_s,
                usual=usual,
                usual_s=usual_s,
            )
        )
    if any(panel.cut for panel in panels):
        words.append(
            counted(
                "no more than {n} row is drawn of deeper calls",
                "no more than {n} rows are drawn of deeper calls",
                DEEPEST,
            )
        )
    details = [
        text("{share} at {place}", share=percent(line.share), place=short_place(line.frame))
        for line in first.rank.lines[:NAMED]
    ]
    title = text("where the time of {who} goes", who=ranks_words([rank.rank for rank in data.ranks]))
    return Told(title, words, details=details)


def _answer(rank: RankProfile) -> str:
    at, who = busiest(rank), ranks_words([rank.rank])
    if at is None:
        return text("{who} was seen in no Python frame", who=who)
    return text(
        "{who} was seen most often at {place}: in {share} of {looks:,} looks",
        who=who,
        place=short_place(at[0]),
        share=percent(at[1]),
        looks=rank.looks,
    )


# --- what is drawn ---------------------------------------------------------------------------------------------------


def _panels(data: Profile) -> list[_Panel]:
    seen = [(rank, tree) for rank in data.ranks if (tree := tree_of(rank.stacks, LEAST)).branches]
    told = told_of([rank for rank, _ in seen])
    if told is None:
        raise NoTarget(
            text("no stack was seen that could be drawn"), text("`%profile` says what there is of each rank")
        )
    trees = {rank.rank: tree for rank, tree in seen}
    drawn = [told.rank]
    if told.middle is not None and told.times > DIFFER:
        drawn.append(told.middle)
    return [_panel(rank, trees[rank.rank]) for rank in drawn]


def _panel(rank: RankProfile, tree: Tree) -> _Panel:
    cells = list(_placed(tree.branches, 0.0, 0))
    return _Panel(rank, [cell for cell in cells if cell.row < DEEPEST], any(cell.row >= DEEPEST for cell in cells))


def _placed(branches: Sequence[Branch], left: float, row: int) -> Iterator[_Cell]:
    """In the order of the program's lines, in which a step mostly runs, and two ranks can be compared. What is free at the right end was
    left out, or spent in the row above.
    """
    for branch in sorted(branches, key=lambda one: (one.frames[0].file, one.frames[0].line, one.frames[0].function)):
        yield _Cell(branch, left, row)
        yield from _placed(branch.inner, left, row + 1)
        left += branch.share


def _line(frame: Frame) -> str:
    """``model.py:27``."""
    return clean(line_of(frame, os.path.basename(frame.file)))


# --- as a figure -----------------------------------------------------------------------------------------------------


def draw(data: Profile) -> Figure:
    """Drawn in inches, from the top left, on one sheet."""
    panels = _panels(data)
    height = LEGEND_IN + sum(map(_height, panels)) + FOOT_IN
    figure = new_figure(height)
    figure.set_layout_engine("none")
    sheet = figure.add_axes((0, 0, 1, 1))
    sheet.set(xlim=(0, WIDTH_IN), ylim=(height, 0))
    sheet.axis("off")
    _legend(sheet, panels)
    top = LEGEND_IN
    for panel in panels:
        _draw_panel(sheet, panel, top)
        top += _height(panel)
    return figure


def _height(panel: _Panel) -> float:
    return HEAD_IN + ROW_IN * panel.rows


def _legend(sheet: Any, panels: Sequence[_Panel]) -> None:
    """What is whose, by the same bar and letters as in the picture."""
    left, middle = EDGE_IN, LEGEND_IN / 2 + 0.03
    cells = [cell for panel in panels for cell in panel.cells]
    for own, name in ((True, text("your code")), (False, text("libraries"))):
        if any(cell.own is own for cell in cells):
            _boxes(sheet, [(left, middle - 0.07, 0.2)], own=own, high=0.14)
            sheet.text(left + 0.27, middle, name, va="center", **_letters(own))
            left += 0.6 + 0.075 * width(name)
    said = text("each row calls the one below it; the wider, the more often it was seen")
    sheet.text(WIDTH_IN - EDGE_IN, middle, said, color=inks.FAINT, fontsize=SIZE, va="center", ha="right")


def _draw_panel(sheet: Any, panel: _Panel, top: float) -> None:
    sheet.text(EDGE_IN, top + HEAD_IN / 2, elided(_head(panel.rank), 120), va="center", fontsize=8.5)
    scale = (WIDTH_IN - 2 * EDGE_IN) / max(1.0, *(cell.left + cell.branch.share for cell in panel.cells))
    first = top + HEAD_IN
    for own in (True, False):
        boxes = [
            (EDGE_IN + cell.left * scale, first + cell.row * ROW_IN, cell.branch.share * scale - GAP_IN)
            for cell in panel.cells
            if cell.own is own
        ]
        _boxes(sheet, boxes, own=own, high=ROW_IN - GAP_IN)
    for cell in panel.cells:
        left = EDGE_IN + cell.left * scale + PAD_IN + MARK_IN * cell.own
        room = cell.branch.share * scale - GAP_IN - 2 * PAD_IN - MARK_IN * cell.own
        label = _label(cell.branch, room)
        if label:
            middle = first + (cell.row + 0.5) * ROW_IN
            sheet.text(left, middle, label, va="center_baseline", color=inks.INK, **_letters(cell.own))


def _head(rank: RankProfile) -> str:
    said = [ranks_words([rank.rank])]
    step_s = pace_s(rank)
    if step_s is not None:
        said.append(text("a step takes {step_s}", step_s=duration(step_s)))
    said.append(counted("{n:,} look", "{n:,} looks", rank.looks))
    return " · ".join(said)


def _boxes(sheet: Any, boxes: Sequence[tuple[float, float, float]], *, own: bool, high: float) -> None:
    """Left, top and width of each. The user's have a bar at the left end as well as a colour."""
    from matplotlib.collections import PolyCollection

    ground = OWN if own else inks.LINE
    wide = [(x, y, max(w, GAP_IN / 2)) for x, y, w in boxes]
    kinds: list[tuple[Sequence[tuple[float, float, float]], float]] = [(wide, 0.3 if own else 0.55)]
    if own:
        kinds.append(([(x, y, min(w, MARK_IN)) for x, y, w in wide], 1.0))
    for same, alpha in kinds:
        corners = [[(x, y), (x + w, y), (x + w, y + high), (x, y + high)] for x, y, w in same]
        sheet.add_collection(PolyCollection(corners, facecolor=ground, alpha=alpha, linewidth=0), autolim=False)


def _letters(own: bool) -> dict[str, Any]:
    return {"fontsize": SIZE, "fontweight": "bold" if own else "normal"}


def _label(branch: Branch, room: float) -> str:
    """What fits into `room` inches: the call with its share, as much of it as tells the line or the function, or nothing."""
    if room < NARROWEST_IN:
        return ""
    own, name = not branch.at.library, clean(branch.at.function)
    fitting = (label for label in _labels(branch, name) if _wide(label, own) <= room)
    if label := next(fitting, ""):
        return label
    most = width(name)
    while most > 3 and _wide(elided(name, most), own) > room:
        most -= 1
    return elided(name, most) if most > 3 else ""


def _labels(branch: Branch, name: str) -> Iterator[str]:
    """The longest first. Of the user's code the line matters most, of a library's the function."""
    line, share = _line(branch.at), percent(branch.share)
    if branch.folded:
        folded = counted("{n:,} library frame", "{n:,} library frames", len(branch.frames))
        yield f"{name} {line} · {folded} · {share}"
    yield f"{name} {line} · {share}"
    if branch.at.library:
        yield f"{name} · {share}"
        yield name
    else:
        yield f"{name} {line}"
        yield f"{bare(name)} {line}"
        yield line


@functools.lru_cache(maxsize=4096)
def _wide(words: str, own: bool) -> float:
    """In inches, as matplotlib sets it."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=SIZE, weight="bold" if own else "normal")
    points: float = text_to_path.get_text_width_height_descent(words, font, False)[0]
    return points / 72
