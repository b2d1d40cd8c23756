"""Who is missing, where all other ranks report that they waited: the one rank that prints no time-out is the one they waited for."""

from __future__ import annotations

import re

from ....language import text
from ....model import LogEvidence, LogLine, Subject
from ....words.ranks import rank_list
from ..launch import rank_of, ranks
from . import Fact

__all__ = ["facts"]

_WAITED = re.compile(
    r"(?i)collective operation timeout|Timed out waiting \d+ ?ms for (?:send|recv)|Timeout at NCCL work|WorkNCCL\(.{0,200}ran for"
)
MOST_MISSING = 3


def facts(evidence: LogEvidence) -> list[Fact]:
    """`rank_not_reporting` with `missing_rank` and `reporting_count`; only where more ranks report than are missing, and at most three."""
    reporting: set[int] = set()
    at: LogLine | None = None
    for line in evidence.lines:
        rank = rank_of(line)
        if rank is not None and _WAITED.search(line.text):
            reporting.add(rank)
            at = at or line
    missing = sorted(ranks(evidence) - reporting) if at is not None else []
    if len(reporting) < 2 or not missing or len(missing) > MOST_MISSING or len(missing) >= len(reporting):
        return []
    listed = rank_list(missing)
    values: dict[str, float | str] = {"missing_rank": listed, "reporting_count": float(len(reporting))}
    words = text("all but rank {listed} report that they waited", listed=listed)
    return [Fact("rank_not_reporting", at, values, missing[0], tuple(Subject("rank", r) for r in missing), words)]
