"""`SqlRows`: how many rows there are, then the rows as a table; numbers in the unit that the name of their column says."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...language import counted, pgettext, text
from ...model import SqlColumn, SqlRows
from ...words.durations import duration
from ..blocks import Answer, Block, Column, Inline, Items, Line, Notation, Span, Table, spans
from ..column_units import is_numeric, unit_of, writer
from ..common import DASH
from ..notations import durations, sizes, values
from ..units import number

SHOWN, MOST = 40, 200
FIRST = 4
"""So many columns stay in a narrow place, the others leave it, the last first."""
MANY = 6
"""Of more columns than that not all fit."""
EXPLAINED = ["explain_key", "explain_value"]
"""The columns of an EXPLAIN: a drawing of the plan."""
_NOTATIONS: Mapping[str, Notation | None] = {"moment": None, "s": durations, "bytes": sizes, "": values}


def view(result: SqlRows) -> Iterator[Block]:
    yield _answer(result)
    notes = list(result.notes)
    if result.more:
        notes.append(text("the query has more rows; these are the first {n:,}", n=len(result.rows)))
    if [column.name for column in result.columns] == EXPLAINED:
        for _, plan in result.rows:
            yield from (Line(Span(line.replace(" ", "\xa0"), "code")) for line in str(plan).rstrip().split("\n"))
    elif result.rows and not _one_value(result):
        columns = [_Values(column) for column in result.columns]
        rows = [[one.cell(value) for one, value in zip(columns, row, strict=True)] for row in result.rows[:MOST]]
        many = len(columns) > MANY
        heads = [one.head(spare=many and n >= FIRST) for n, one in enumerate(columns)]
        yield Table("", heads, rows, SHOWN, pgettext("more", "rows"))
        if (left := len(result.rows) - MOST) > 0:
            all_of_them = counted(
                "{n:,} row more: `to_frame()` and `--csv` give all",
                "{n:,} rows more: `to_frame()` and `--csv` give all",
                left,
            )
            notes.insert(0, all_of_them)
    if notes:
        yield Items(notes)


def _answer(result: SqlRows) -> Answer:
    about: list[Inline] = [", ".join(result.tables)] if result.tables else []
    about.append(duration(result.taken_s))
    if _one_value(result):
        (column,), ((value,),) = result.columns, result.rows
        return Answer([Span(f"{column.name} = ", "muted"), *spans(_Values(column).cell(value))], about)
    many = len(result.rows)
    return Answer(counted("{n:,} row", "{n:,} rows", many) if many else text("no rows"), about)


def _one_value(result: SqlRows) -> bool:
    return len(result.columns) == 1 and len(result.rows) == 1 and "\n" not in str(result.rows[0][0])


class _Values:
    """How the values of one column are written."""

    def __init__(self, column: SqlColumn) -> None:
        self._unit = unit = unit_of(column)
        self._name, self._right, self._write = column.name, is_numeric(column), writer(unit)
        self._notation = _NOTATIONS[unit] if unit or column.type in ("DOUBLE", "FLOAT") else None

    def head(self, *, spare: bool) -> Column:
        return Column(self._name, self._right, wrap=not self._right, spare=spare, notation=self._notation)

    def cell(self, value: Any) -> Inline:
        if value is None:
            return DASH
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, (int, float)):
            finite = math.isfinite(value)
            written = self._write(value) if finite else number(value)
            return Span(written, "plain" if finite else "bad", hover=str(value) if self._unit else "", value=value)
        if isinstance(value, str):
            return value
        return _listed(value)


def _listed(value: Sequence[Any] | dict[str, Any]) -> str:
    """``[1, 2]`` of a list, JSON of a struct."""
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    return f"[{', '.join('–' if one is None else _listed(one) if isinstance(one, (list, tuple, dict)) else str(one) for one in value)}]"
