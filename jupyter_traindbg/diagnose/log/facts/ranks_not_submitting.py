"""Whom Horovod's stall report names: the ranks that did not submit what the others wait for. Who prints it is only the coordinator.

Both forms are of its stall inspector: "Stalled ranks:", then "6: [name, name ...]" a rank; formerly "[missing ranks: 1, 2]".
"""

from __future__ import annotations

import re

from ....language import text
from ....model import LogEvidence, LogLine, rank_subjects
from ....words.ranks import rank_list
from . import Fact

__all__ = ["facts"]

_HEAD = re.compile(r"(?i)\b(?:stalled|missing) ranks:")
_ROW = re.compile(r"^\W{0,4}(\d{1,6}): ?\[")
_LISTED = re.compile(r"(?i)\[missing ranks:\s*(\d{1,6}(?:,\s*\d{1,6}){0,4096})\]")
MOST_NAMED = 8


def facts(evidence: LogEvidence) -> list[Fact]:
    """`ranks_not_submitting` with `stalled_ranks` and `stalled_count`; it is about the first eight."""
    stalled: dict[int, None] = {}
    at: LogLine | None = None
    open_at: LogLine | None = None
    for line in evidence.lines:
        listed, row = _LISTED.search(line.text), _ROW.match(line.text)
        if listed:
            stalled.update(dict.fromkeys(int(n) for n in listed[1].split(",")))
            at = at or line
        elif _HEAD.search(line.text):
            open_at, at = line, at or line
        elif open_at is not None and row and line.source == open_at.source:
            stalled[int(row[1])] = None
        elif open_at is not None and line.who == open_at.who:
            open_at = None  # its report is over
    if at is None or not stalled:
        return []
    named = rank_list(stalled)
    words = text("rank {named} did not submit what the others wait for", named=named)
    values: dict[str, float | str] = {"stalled_ranks": named, "stalled_count": float(len(stalled))}
    return [Fact("ranks_not_submitting", at, values, None, rank_subjects(sorted(stalled)[:MOST_NAMED]), words)]
