"""The tables of nvidia-smi that somebody put into a log: of each GPU how busy it is and how much memory is in use. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...model import LogEvidence, LogLine

__all__ = ["Table", "Used", "tables"]

_NAME = re.compile(r"^\|\s+(\d{1,2})\s+\S.*\|\s+[\dA-Fa-f]{8}:[\dA-Fa-f]{2}:")
_USE = re.compile(r"\|\s*(\d+)MiB\s*/\s*(\d+)MiB\s*\|\s*(\d{1,3})%")
_BARE = re.compile(r"^\W{0,4}(\d+) ?MiB\s*/\s*(\d+) ?MiB\s*(?:\|\s*(\d{1,3}) ?%)?")


@dataclass(frozen=True)
class Used:
    """One GPU at one moment."""

    used_mib: int
    total_mib: int
    busy_percent: int | None
    """None where only the memory was printed."""
    line: LogLine


Table = Mapping[int, Used]
"""By the GPU's index."""


def tables(evidence: LogEvidence) -> list[Table]:
    """Every table, in order; those of one GPU, too. A table ends where the index goes back."""
    whole = list(_whole(evidence.lines))
    return whole or list(_bare(evidence.lines))


def _whole(lines: Sequence[LogLine]) -> Iterator[Table]:
    table: dict[int, Used] = {}
    index: int | None = None
    for line in lines:
        if found := _NAME.search(line.text):
            index = int(found[1])
            if table and index <= max(table):
                yield table
                table = {}
        elif index is not None and (used := _USE.search(line.text)):
            table[index] = Used(int(used[1]), int(used[2]), int(used[3]), line)
            index = None
    if table:
        yield table


def _bare(lines: Sequence[LogLine]) -> Iterator[Table]:
    """Only the columns of the memory, one line below the other: the first one is GPU 0."""
    table: dict[int, Used] = {}
    before = 0
    for line in lines:
        found = _BARE.search(line.text)
        if not found:
            continue
        if table and line.number > before + 1:
            yield table
            table = {}
        table[len(table)] = Used(int(found[1]), int(found[2]), int(found[3]) if found[3] else None, line)
        before = line.number
    if len(table) > 1:
        yield table
