"""The tables of nvidia-smi that somebody put into a log: of each GPU how busy it is and how much memory is in use. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...model import LogEvidence, LogLine

__all__ = ["Process", "Table", "Used", "processes", "tables"]

_NAME = re.compile(r"^\|\s+(\d{1,2})\s+\S.*\|\s+[\dA-Fa-f]{4,8}:[\dA-Fa-f]{2}:")
_USE = re.compile(r"(?:(\d+)W\s*/\s*(\d+)W\s*)?\|\s*(\d+)MiB\s*/\s*(\d+)MiB\s*\|\s*(\d{1,3})%")
_CSV = re.compile(r"^\W{0,4}(?:[\w/: .-]{1,40}, )?(\d{1,3}) %, (\d+) MiB(?:, (\d+) MiB)?\s*$")
_PROCESS = re.compile(r"^\|?\s+(\d{1,2})\s+(?:N/A\s+N/A\s+)?(\d{2,10})\s+C\s+(\S.*?)\s+(\d+)MiB \|")
_BARE = re.compile(r"^\W{0,4}(\d+) ?MiB\s*/\s*(\d+) ?MiB\s*(?:\|\s*(\d{1,3}) ?%)?")


MOST_GPUS = 16
"""More rows below one row of names are one GPU's over time."""
HELD_UNKNOWN = -1
"""In place of how much memory is in use, where that was not printed."""


@dataclass(frozen=True)
class Used:
    """One GPU at one moment."""

    used_mib: int
    total_mib: int
    busy_percent: int | None
    """None where only the memory was printed."""
    power_share: float | None
    """Of its limit; None where that was not printed."""
    line: LogLine


@dataclass(frozen=True)
class Process:
    """A row of the list below the table."""

    gpu: int
    pid: int
    program: str
    used_mib: int
    line: LogLine


Table = Mapping[int, Used]
"""By the GPU's index."""


def tables(evidence: LogEvidence) -> list[Table]:
    """Every table, in order; those of one GPU, too. A table ends where the index goes back."""
    whole = list(_whole(evidence.lines))
    return whole or list(_monitored(evidence.lines)) or list(_queried(evidence.lines)) or list(_bare(evidence.lines))


def processes(evidence: LogEvidence) -> list[Process]:
    """The processes that compute, of all tables; one that is in several of them once."""
    found = ((_PROCESS.search(line.text), line) for line in evidence.lines)
    listed = (Process(int(m[1]), int(m[2]), m[3], int(m[4]), line) for m, line in found if m is not None)
    return list({(p.gpu, p.pid): p for p in listed}.values())


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
            power = int(used[1]) / int(used[2]) if used[1] and int(used[2]) else None
            table[index] = Used(int(used[3]), int(used[4]), int(used[5]), power, line)
            index = None
    if table:
        yield table


def _monitored(lines: Sequence[LogLine]) -> Iterator[Table]:
    """``nvidia-smi dmon``: a row a second and GPU. It does not say how much memory is in use unless it is asked."""
    names: list[str] = []
    table: dict[int, Used] = {}
    for line in lines:
        cells = line.text.split()
        if cells[:1] == ["gpu"] and "sm" in cells:  # its "# " is taken for a comment's
            names = cells
        elif "sm" in names and len(cells) == len(names) and all(c == "-" or c.isdigit() for c in cells):
            row = dict(zip(names, cells, strict=True))
            if row["gpu"].isdigit() and row["sm"].isdigit():
                gpu = int(row["gpu"])
                if table and gpu <= max(table):
                    yield table
                    table = {}
                used = int(row["fb"]) if row.get("fb", "").isdigit() else HELD_UNKNOWN
                table[gpu] = Used(used, 0, int(row["sm"]), None, line)
    if table:
        yield table


def _queried(lines: Sequence[LogLine]) -> Iterator[Table]:
    """``--query-gpu=utilization.gpu,memory.used --format=csv``: again and again of one GPU, or once of several, below its row of names."""
    below: dict[int, Used] = {}
    names: list[str] = []
    for line in lines:
        cells = [cell.strip() for cell in line.text.split(",")]
        if "memory.used [MiB]" in cells:
            names = cells
        elif names and len(cells) == len(names):
            row = dict(zip(names, cells, strict=True))
            used, busy = _number(row["memory.used [MiB]"]), _number(row.get("utilization.gpu [%]", ""))
            below[len(below)] = Used(used or 0, 0, busy, None, line)
        elif found := _CSV.search(line.text):
            yield {0: Used(int(found[2]), int(found[3] or 0), int(found[1]), None, line)}
    if 1 < len(below) <= MOST_GPUS:
        yield below


def _number(cell: str) -> int | None:
    number = cell.partition(" ")[0]
    return int(number) if number.isdigit() else None


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
        table[len(table)] = Used(int(found[1]), int(found[2]), int(found[3]) if found[3] else None, None, line)
        before = line.number
    if len(table) > 1:
        yield table
