"""Who is missing, where all other ranks report that they waited: the one rank that prints no time-out is the one they waited for."""

from __future__ import annotations

import re

from ....language import text
from ....model import LogEvidence, LogLine
from . import Fact

__all__ = ["facts"]

_WAITED = re.compile(
    r"(?i)collective operation timeout|Timed out waiting \d+ ?ms for (?:send|recv)|Timeout at NCCL work|WorkNCCL\(.{0,200}ran for"
)
_RANK = re.compile(r"(?i)\[rank ?(\d{1,9})\]")
_WORLD = re.compile(r"(?i)\b(?:world[_ ]size|nranks)\s*[:=]?\s*(\d{1,5})\b|\bMEMBER:\s*\d+/(\d{1,5})")
MOST_MISSING = 3


def facts(evidence: LogEvidence) -> list[Fact]:
    """`rank_not_reporting` with `missing_rank` and `reporting_count`; only where more ranks report than are missing, and at most three."""
    reporting: set[int] = set()
    known: set[int] = {s.rank for s in evidence.sources if s.rank is not None}
    at: LogLine | None = None
    for line in evidence.lines:
        named = _RANK.search(line.text)
        rank = line.rank if line.rank is not None else int(named[1]) if named else None
        if rank is not None:
            known.add(rank)
        if _WAITED.search(line.text) and rank is not None:
            reporting.add(rank)
            at = at or line
        if world := _WORLD.search(line.text):
            known.update(range(min(int(world[1] or world[2]), 4096)))
    missing = sorted(known - reporting)
    if at is None or len(reporting) < 2 or not missing or len(missing) > MOST_MISSING or len(missing) >= len(reporting):
        return []
    listed = ", ".join(map(str, missing))
    values: dict[str, float | str] = {"missing_rank": listed, "reporting_count": float(len(reporting))}
    words = text(f"all but rank {listed} report that they waited", f"除 rank {listed} 外都报告了等待")
    return [Fact("rank_not_reporting", at, values, missing[0], tuple(f"rank {r}" for r in missing), words)]
