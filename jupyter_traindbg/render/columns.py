"""One notation for all numbers of a column, so that they can be compared by eye."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from .blocks import Inline, Notation, Span, Table, spans

__all__ = ["alike", "uniform"]


def uniform(table: Table) -> Table:
    """`table`, each column that has a notation written in it."""
    if not table.rows or all(column.notation is None for column in table.columns):
        return table
    cells = zip(*table.rows, strict=True)
    written = [
        column if head.notation is None else alike(column, head.notation)
        for head, column in zip(table.columns, cells, strict=True)
    ]
    return replace(table, rows=list(zip(*written, strict=True)))


def alike(cells: Sequence[Inline], notation: Notation) -> Sequence[Inline]:
    """`cells` in one notation. Those without a number stay as they are, and all do where there is but one number, or always the same."""
    values = [s.value for cell in cells for s in spans(cell) if s.value is not None and math.isfinite(s.value)]
    if len(set(values)) < 2:
        return cells
    write = notation(values)
    return [[_written(span, write) for span in spans(cell)] for cell in cells]


def _written(span: Span, write: Callable[[float], str]) -> Span:
    if span.value is None or not math.isfinite(span.value):
        return span
    return replace(span, text=write(span.value))
