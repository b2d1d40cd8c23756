"""How a table sorts on a page: what each column is sorted by, and which rows stand out. No script is needed for it."""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..language import counted, text
from .blocks import Column, Inline, Table, spans

__all__ = ["By", "Sorting", "places", "sorting"]

FEWEST = 3
"""Rows of a table that is worth sorting."""
FEWEST_TO_CHOOSE_FROM = 8

_DIGITS = re.compile(r"(\d+)")
_FIGURE = re.compile(r"[<>~≥≤+-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")


@dataclass(frozen=True)
class By:
    """How the head of one column sorts: its name by `first`, the small arrow beside it by `second`; `other` says the latter in words."""

    group: str
    first: Literal["up", "down"]
    second: Literal["up", "down"]
    other: str


@dataclass(frozen=True)
class Sorting:
    """What a page needs to sort a table without a script: for each column how it sorts (None where all its cells are alike), for each row
    its places. `marks` are the rows that stand out, where choosing them leaves something out; else none is marked.
    """

    group: str
    by: Sequence[By | None]
    places: Sequence[Sequence[int | None]]
    marks: Sequence[bool]

    @property
    def marked(self) -> int:
        return sum(self.marks)

    @property
    def given(self) -> str:
        return text("in the order given")

    @property
    def only(self) -> str:
        return counted("only the one that stands out", "only the {n} that stand out", self.marked)

    def style(self, row: int) -> str:
        """The places of `row` as CSS: ``--by-1:0;--by-3:12``."""
        return ";".join(
            f"--by-{n}:{place}"
            for n, (by, place) in enumerate(zip(self.by, self.places[row], strict=True), 1)
            if by is not None and place is not None
        )


def sorting(table: Table) -> Sorting | None:
    """How `table` sorts; None where it has so few rows that all are seen at once, where nothing tells them apart, or where a row belongs to
    the one above it.
    """
    if len(table.rows) < FEWEST or table.nested:
        return None
    columns = [places([row[i] for row in table.rows]) for i in range(len(table.columns))]
    group = f"by-{secrets.token_hex(4)}"  # the buttons of one table are one group, whatever else is on the page
    by = [
        _by(group, column) if len({place for place in own if place is not None}) > 1 else None
        for column, own in zip(table.columns, columns, strict=True)
    ]
    if not any(by):
        return None
    marks = [any(span.tone in ("warn", "bad") for cell in row for span in spans(cell)) for row in table.rows]
    if len(marks) < FEWEST_TO_CHOOSE_FROM or all(marks):
        marks = [False] * len(marks)
    return Sorting(group, by, list(zip(*columns, strict=True)), marks)


def places(cells: Sequence[Inline]) -> list[int | None]:
    """Where each of `cells` stands when its column is sorted, smallest first, equal ones at one place; None for what says nothing.

    By `Span.value` where a cell has one, else by the number that it is, else by its words ("rank 10" after "rank 9").
    """
    keys = [_key(cell) for cell in cells]
    known = sorted({key for key in keys if key is not None})
    order = {key: place for place, key in enumerate(known)}
    return [None if key is None else order[key] for key in keys]


def _by(group: str, column: Column) -> By:
    """Of numbers people look for the largest, of names for the first."""
    if column.right:
        return By(group, "down", "up", text("smallest first"))
    return By(group, "up", "down", text("Z first"))


def _key(cell: Inline) -> tuple[int, float, tuple[tuple[int, int, str], ...]] | None:
    """Numbers come before words, so that whoever looks for the largest sees NaN first."""
    for span in spans(cell):
        if span.value is not None and not math.isnan(span.value):
            return (0, span.value, ())
    words = "".join(span.text for span in spans(cell)).strip()
    if words in ("", "–", "-"):
        return None
    figure = _FIGURE.fullmatch(words)
    if figure is not None:
        return (0, float(words.lstrip("<>~≥≤").replace(",", "")), ())
    parts = tuple(
        (0, int(part), "") if i % 2 else (1, 0, part.casefold()) for i, part in enumerate(_DIGITS.split(words)) if part
    )
    return (1, 0.0, parts)
