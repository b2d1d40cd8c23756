"""`Environ`: the variables that deserve a look, with what to do instead; then the others; then where all this was checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...model import Environ, EnvironRow, EnvironValue
from ..blocks import Block, Column, Fold, Inline, Items, Line, Span, Table, Tone
from ..common import DASH
from ..grouping import compact_ranks
from ..units import plural

FINE = ("real", "unused here")
TONES: dict[str, Tone] = {"harmful": "bad", "differs": "bad", "does nothing": "warn", "dead": "warn", "unknown": "info"}
DIFFERENT = 4
"""So many values of one variable are shown."""


def view(result: Environ) -> Iterator[Block]:
    who = compact_ranks(result.ranks)
    if not result.rows:
        yield Line(f"environment of {who}: no variable that has to do with training is set", title=True)
        return
    first = [row for row in result.rows if row.standing not in FINE]
    rest = [row for row in result.rows if row.standing in FINE]
    yield Line(
        [f"environment of {who} · {plural(len(result.rows), 'variable')}", f", {len(first)} to look at"], title=True
    )
    yield Line("as the processes were started; a program may have changed it since")
    if first:
        columns = [Column("variable"), Column("value", wrap=True), Column("is"), Column("what it does", wrap=True)]
        yield Table(
            "To look at", [*columns, Column("instead", wrap=True)], [_suspect(row) for row in first], 40, "variables"
        )
    if rest:
        columns = [
            Column("variable"),
            Column("value", wrap=True),
            Column("read by", spare=True),
            Column("what it does", wrap=True),
        ]
        yield Table("As it should be", columns, [_fine(row) for row in rest], 40, "variables")
    sources: list[Inline] = [[Span(row.name, "strong"), f": {row.source}"] for row in result.rows if row.source]
    if sources:
        yield Fold("where each of these was checked", [Items(sources)])


def _suspect(row: EnvironRow) -> list[Inline]:
    standing = Span(row.standing, TONES.get(row.standing, "plain"))
    return [Span(row.name, "strong"), _values(row.values), standing, row.meaning, row.advice or DASH]


def _fine(row: EnvironRow) -> list[Inline]:
    reader = row.reader if row.standing == "real" else f"{row.reader} (not in use)"
    return [Span(row.name, "strong"), _values(row.values), reader, row.meaning]


def _values(values: Sequence[EnvironValue]) -> Inline:
    """One value, or each with the ranks that have it, the commonest first."""
    if len(values) == 1:
        return _value(values[0])
    words: list[str | Span] = []
    for value in values[:DIFFERENT]:
        words += [*(["; "] if words else []), f"{compact_ranks(value.ranks)}: ", _value(value)]
    more = len(values) - DIFFERENT
    return [*words, f"; {more} more values"] if more > 0 else words


def _value(value: EnvironValue) -> Span:
    return Span("not set", "muted") if value.value is None else Span(value.value or "(empty)", "code")
