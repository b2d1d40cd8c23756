"""What a table of SQL is: its columns, what a job is asked for it, and how its rows come from the answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..language import later
from ..model import NotAvailable, Silent

__all__ = ["NOT_AVAILABLE", "Column", "Probe", "Question", "Relation", "Row", "Told", "complete", "fields"]

Row = Mapping[str, Any]
"""Values by the names of columns. What is missing in it, or None, is NULL; a `NotAvailable` is NULL and its reason is told in the row."""


@dataclass(frozen=True)
class Column:
    """``kind``: bool, int, float, str, or ``list`` of one of these. The unit is in the ``name``, as everywhere.
    ``meaning`` is a message, which `text` says.
    """

    name: str
    kind: Any
    meaning: str


NOT_AVAILABLE = Column("not_available", str, later("why values of this row are NULL: the columns and the reason"))
"""The last column of every table."""


@dataclass(frozen=True)
class Question:
    """A question to the job, a method of it by that name, and what it is asked with.

    ``share``: the keyword that bounds what one rank tells, and is given each rank's share of the rows that a table may have. ``waits``: it
    may wait for a step of the training.
    """

    name: str
    keywords: Mapping[str, Any] = field(default_factory=dict)
    share: str = ""
    waits: bool = False


@dataclass(frozen=True)
class Probe:
    """A probe that the agents of all ranks are asked. ``waits`` as of a `Question`; then it takes a ``deadline_s``. ``optional``: there are
    rows also where nobody answers it, and `Told.problem` is why.
    """

    name: str
    keywords: Mapping[str, Any] = field(default_factory=dict)
    waits: bool = False
    optional: bool = False


@dataclass(frozen=True)
class Told:
    """What agents answered to a probe: rank, pid and answer of each; and who gave none."""

    answers: Sequence[tuple[int, int, Mapping[str, Any]]]
    silent: Sequence[Silent] = ()
    problem: str = ""


class Relation(Protocol):
    """What a module of this package defines. Its docstring says in one line what a row is; ``COST`` what measuring it takes. Both are
    messages, and so are the meanings of its columns: `text` says them.

    ``ASKS`` is what the job is asked, and ``rows`` makes rows of the answers, given in the same order: pure.
    """

    COLUMNS: Sequence[Column]
    COST: str
    ASKS: Sequence[Question | Probe]

    def rows(self, *answers: Any) -> Iterator[Row]:
        """The rows, in the order in which they are best read."""


def fields(record: Any, *names: str) -> dict[str, Any]:
    """Those fields of a dataclass as the columns of the same names."""
    return {name: getattr(record, name) for name in names}


def complete(row: Row, columns: Sequence[Column]) -> list[Any]:
    """The values of `row` in the order of `columns`: what is `NotAvailable` is None, and `NOT_AVAILABLE` says why."""
    missing: dict[str, list[str]] = {}
    for name, value in row.items():
        if isinstance(value, NotAvailable):
            missing.setdefault(value.reason, []).append(name)
    values = [row.get(column.name) for column in columns]
    if not missing:
        return values
    told = [str(why)] if (why := row.get(NOT_AVAILABLE.name)) else []
    told += [f"{', '.join(names)}: {reason}" for reason, names in missing.items()]
    row = {**row, NOT_AVAILABLE.name: "; ".join(told)}
    return [None if isinstance(v := row.get(column.name), NotAvailable) else v for column in columns]
