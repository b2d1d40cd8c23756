"""How many ranks reached the store, of how many: "3/8 clients joined" (c10d TCPStore), "world_size=8, worker_count=3" (its barrier)."""

from __future__ import annotations

import re

from ....language import text
from ....model import LogEvidence
from . import Fact

__all__ = ["facts"]

_JOINED = re.compile(r"(?i)\b(\d{1,9})\s*/\s*(\d{1,9})\s+clients\s+joined")
_BARRIER = re.compile(
    r"(?i)Timed out.{0,80}store based barrier[^\n]{0,160}world_size=(\d{1,9}),\s*worker_count=(\d{1,9})"
    r"(?:,.{0,40}?timeout=(\d{1,9}):(\d\d):(\d\d))?"
)
_WAITED = re.compile(r"(?i)timed out after\s+(\d{1,9})\s+seconds\s+waiting")
REACH = 3
"""The seconds may stand so many lines above, where the message was wrapped."""


def facts(evidence: LogEvidence) -> list[Fact]:
    """`clients_joined` for the smallest count that is printed, with how many are missing and how long was waited."""
    best: tuple[int, int, int] | None = None
    for i, line in enumerate(evidence.lines):
        seen = _counts(line.text)
        if seen and seen[0] < seen[1]:
            best = (*seen, i) if best is None or seen[0] < best[0] else best
    if best is None:
        return []
    joined, expected, at = best
    values: dict[str, float | str] = {
        "joined_count": float(joined),
        "expected_count": float(expected),
        "missing_count": float(expected - joined),
    }
    for line in evidence.lines[max(0, at - REACH) : at + 1]:
        if waited := _WAITED.search(line.text):
            values["waited_s"] = float(waited[1])
        elif (barrier := _BARRIER.search(line.text)) and barrier[3]:
            values["waited_s"] = int(barrier[3]) * 3600.0 + int(barrier[4]) * 60 + int(barrier[5])
    words = text("{expected} of {expected2} are missing", expected=expected - joined, expected2=expected)
    return [Fact("clients_joined", evidence.lines[at], values, words=words)]


def _counts(line: str) -> tuple[int, int] | None:
    """(joined, expected), where the line says so. The barrier's counter may overshoot after a restart: then it says nothing."""
    if joined := _JOINED.search(line):
        return int(joined[1]), int(joined[2])
    if barrier := _BARRIER.search(line):
        return int(barrier[2]), int(barrier[1])
    return None
