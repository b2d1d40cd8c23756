"""An environment variable that has to do with training, of a rank, as its process was started; secrets are hidden."""

from __future__ import annotations

from collections.abc import Iterator

from ..language import later
from ..model import Environ
from .base import Column, Question, Row, fields

COST = later("a ms a rank and 0.1 s, from /proc; nothing is entered")
ASKS = (Question("environ"),)
COLUMNS = (
    Column("rank", int, later("the rank")),
    Column("name", str, later("the variable")),
    Column("value", str, later("NULL where it is not set on this rank, and is on another")),
    Column(
        "standing",
        str,
        later("`real`, `harmful`, `differs`, `does nothing`, `dead`, `old name`, `unused here` or `unknown`"),
    ),
    Column("reader", str, later("who reads it")),
    Column("meaning", str, later("what it does")),
    Column("advice", str, later("what to use or to do instead; empty where there is nothing to say")),
)


def rows(environ: Environ) -> Iterator[Row]:
    for variable in environ.rows:
        for value in variable.values:
            for rank in value.ranks:
                yield fields(variable, "name", "standing", "reader", "meaning", "advice") | {
                    "rank": rank,
                    "value": value.value,
                }
