"""`SqlTables`: what can be asked in SQL: the tables, then the columns of each with what they mean."""

from __future__ import annotations

from collections.abc import Iterator

from ...language import counted, pgettext, text
from ...model import SqlTables
from ..blocks import Answer, Block, Column, Fold, Inline, Span, Table

EXAMPLE = "`%sql 'select rank, avg(data_wait_s) from steps group by rank'`"


def view(result: SqlTables) -> Iterator[Block]:
    many = len(result.tables)
    words = counted("{n:,} table can be asked in SQL", "{n:,} tables can be asked in SQL", many)
    yield Answer(words, [text("for example {example}", example=EXAMPLE)] if many else [])
    if not many:
        return
    heads = [
        Column(text("table")),
        Column(text("a row is"), wrap=True),
        Column(text("costs"), wrap=True, spare=True),
    ]
    about: list[list[Inline]] = [[Span(t.table, "strong"), t.row, t.cost] for t in result.tables]
    yield Table("", heads, about, many, pgettext("more", "tables"))
    columns = [Column(text("column")), Column(text("type")), Column(text("meaning"), wrap=True)]
    for table in result.tables:
        rows: list[list[Inline]] = [[Span(c.name, "code"), c.type, c.meaning] for c in table.columns]
        summary = counted("{table}: {n:,} column", "{table}: {n:,} columns", len(rows), table=table.table)
        yield Fold(summary, [Table("", columns, rows, len(rows), pgettext("more", "columns"))], needed=True)
