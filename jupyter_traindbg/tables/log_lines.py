"""A line of a log that the job writes; of one of more than 5,000 lines both ends, and the lines that may tell of a failure."""

from __future__ import annotations

from collections.abc import Iterator

from ..language import later
from ..model import LogEvidence
from .base import Column, Question, Row, fields

COST = later(
    "10 ms for 1 MB, the first time 2 s more, and 0.1 s for 1,000 lines to take secrets out; nothing is asked of the job"
)
ASKS = (Question("log_lines"),)
COLUMNS = (
    Column("rank", int, later("the rank that wrote it, where the log or its name says so")),
    Column("who", str, later("the same in words, or the worker of Ray")),
    Column("file", str, later("the log, as its process calls it")),
    Column("line", int, later("its number in there")),
    Column("time_s", float, later("when, in seconds since the epoch, or since midnight, where the log says so")),
    Column("text", str, later("the line, without colours, prefixes and secrets")),
    Column("repeats", int, later("so many lines of its kind it stands for")),
)


def rows(evidence: LogEvidence) -> Iterator[Row]:
    for line in evidence.lines:
        source = evidence.sources[line.source]
        yield {
            **fields(line, "time_s", "text", "repeats"),
            "rank": source.rank if line.rank is None else line.rank,
            "who": line.who or None,
            "file": source.name,
            "line": line.number,
        }
