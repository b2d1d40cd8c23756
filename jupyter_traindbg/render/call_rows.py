"""The calls in which a thread was seen, as a table that is a tree: the outermost first, what it calls below it. Pure functions."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ..frames.tree import Branch, tree_of
from ..frames.whose import line_of, short_place
from ..language import counted, pgettext, text
from ..model import RankProfile
from .blocks import Column, Inline, Span, Table
from .units import percent

__all__ = ["call_table"]

SHOWN, KEPT = 60, 200
LEAST = 0.02
"""Calls that were seen in a smaller share of the looks are told together."""
STEP, DEEP = "\u00a0\u00a0\u00a0", 12
"""What each level is indented by, which a page keeps, and after so many no more."""


def call_table(rank: RankProfile) -> Table | None:
    """None where no stack was seen."""
    tree = tree_of(rank.stacks, LEAST)
    rows = [*(row for branch in tree.branches for row in _rows(branch, 0)), *_others(tree.left_out, 0)]
    if not rows:
        return None
    columns = [Column(text("call"), wrap=True), Column(text("seen there"), right=True)]
    return Table("", columns, rows[:KEPT], SHOWN, pgettext("more", "calls"), nested=True)


def _rows(branch: Branch, depth: int) -> Iterator[list[Inline]]:
    yield [[STEP * min(depth, DEEP), *_called(branch)], percent(branch.share)]
    for inner in branch.inner:
        yield from _rows(inner, depth + 1)
    if branch.inner:
        yield from _others(branch.left_out, depth + 1)


def _called(branch: Branch) -> list[str | Span]:
    """Of a library's frame the name of the file alone: there is little room. Of a run of them the innermost, and how many they are."""
    frame = branch.at
    if not frame.library:
        return [Span(short_place(frame), "code", link=frame)]
    place = f"{line_of(frame, os.path.basename(frame.file))} {frame.function}"
    called = Span(place, "muted", hover=short_place(frame), link=frame)
    if not branch.folded:
        return [called]
    n = len(branch.frames)
    return [called, Span(counted(" ({n:,} library frame)", " ({n:,} library frames)", n), "muted")]


def _others(share: float, depth: int) -> Iterator[list[Inline]]:
    if share >= LEAST / 4:
        yield [[STEP * min(depth, DEEP), Span(text("... other"), "muted")], percent(share)]
