"""Busy and idle GPUs in a table of nvidia-smi that somebody put into the log.

Only tables of at least two GPUs in which some work at >= 80 % and others do nothing, and only if each table of the log agrees on who
is idle: one table is a moment, and GPUs of a pipeline take turns.
"""

from __future__ import annotations

import re

from ....model import LogEvidence, LogLine, Subject
from . import Fact

__all__ = ["facts"]

_NAME = re.compile(r"^\|\s+(\d{1,2})\s+\S.*\|\s+[\dA-Fa-f]{8}:[\dA-Fa-f]{2}:")
_USE = re.compile(r"\|\s*\d+MiB\s*/\s*\d+MiB\s*\|\s*(\d{1,3})%")
BUSY, IDLE = 80, 3
TABLES = 2


def facts(evidence: LogEvidence) -> list[Fact]:
    """`uneven_gpus` with `busy_gpus`, `idle_gpus` (as "0, 1") and their percentages, of the last of at least two tables that agree."""
    tables = _tables(evidence)
    uneven = [(t, _split(t)) for t in tables]
    if len(tables) < TABLES or any(not (busy and idle) for _, (busy, idle) in uneven):
        return []
    if len({tuple(idle) for _, (_, idle) in uneven}) > 1:
        return []
    table, (busy, idle) = uneven[-1]
    values: dict[str, float | str] = {
        "busy_gpus": ", ".join(map(str, busy)),
        "idle_gpus": ", ".join(map(str, idle)),
        "busy_percent": str(min(table[g][0] for g in busy)),
        "idle_percent": str(max(table[g][0] for g in idle)),
    }
    return [Fact("uneven_gpus", table[idle[0]][1], values, who=tuple(Subject("gpu", g) for g in idle))]


def _tables(evidence: LogEvidence) -> list[dict[int, tuple[int, LogLine]]]:
    """Every table: index -> (utilisation in percent, its line). A table ends where the index goes back."""
    tables: list[dict[int, tuple[int, LogLine]]] = []
    index: int | None = None
    for line in evidence.lines:
        if found := _NAME.search(line.text):
            index = int(found[1])
            if not tables or index <= max(tables[-1], default=-1):
                tables.append({})
        elif index is not None and (used := _USE.search(line.text)):
            tables[-1][index] = (int(used[1]), line)
            index = None
    return [t for t in tables if len(t) > 1]


def _split(table: dict[int, tuple[int, LogLine]]) -> tuple[list[int], list[int]]:
    busy = sorted(g for g, (percent, _) in table.items() if percent >= BUSY)
    return busy, sorted(g for g, (percent, _) in table.items() if percent <= IDLE)
