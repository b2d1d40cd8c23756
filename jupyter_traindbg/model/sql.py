"""What a question in SQL gives: the rows of a query, and the tables that there are to ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .base import Result, Silent

__all__ = ["SqlColumn", "SqlRows", "SqlTable", "SqlTables"]


@dataclass(frozen=True)
class SqlColumn:
    """A column. ``type`` is SQL's name for what it holds: ``"BIGINT"``, ``"DOUBLE"``, ``"VARCHAR[]"``. ``meaning`` is in one line; of a
    column that a query has made there is none.
    """

    name: str
    type: str
    meaning: str = ""


@dataclass(frozen=True)
class SqlTable:
    """A table that can be asked. ``row`` says what a row of it is, ``cost`` what measuring it takes."""

    table: str
    row: str
    cost: str
    columns: Sequence[SqlColumn]


@dataclass(frozen=True)
class SqlTables(Result):
    """All tables, as `%sql` without a query lists them."""

    _rows = "tables.columns"
    tables: Sequence[SqlTable]


@dataclass(frozen=True)
class SqlRows(Result):
    """The answer to a query. ``rows`` are values in the order of ``columns``; NULL is None, and NaN is a value.

    ``tables``: those that were measured for it. ``more``: the query has more rows than a query may give. ``measured_s``: how much of
    ``taken_s`` the measuring took. ``notes``: what has to be said of the tables, such as why one is empty.
    """

    _rows = "columns"
    query: str
    columns: Sequence[SqlColumn]
    rows: Sequence[Sequence[Any]]
    tables: Sequence[str] = ()
    more: bool = False
    silent: Sequence[Silent] = ()
    notes: Sequence[str] = ()
    measured_s: float = 0.0
    taken_s: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """As of any result; ``rows`` are records, by the names of the columns."""
        plain = super().to_dict()
        names = [column.name for column in self.columns]
        return {**plain, "rows": [dict(zip(names, row, strict=True)) for row in plain["rows"]]}
