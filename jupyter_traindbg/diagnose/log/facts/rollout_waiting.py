"""Workers that never come back, by the driver's own count: "Waiting for 12 workers... (elapsed: 930.0s)" again and again with the same 12.

A line such as "Collecting trajectories..." at the end of a log is how every healthy run looks for a while, so it is no evidence by itself.
"""

from __future__ import annotations

import re

from ....model import LogEvidence, LogLine
from . import Fact

__all__ = ["facts"]

_WAITING = re.compile(
    r"(?i)waiting for\s+(\d{1,9})(?:\s*/\s*\d+)?\s+(?:more\s+)?(?:workers?|rollouts?|actors?|futures?|env runners?|results?|trajector\w+)"
    r".{0,60}?(?:elapsed|for|after|waited)[:=\s]*(\d{1,9}(?:\.\d{1,6})?)\s*(s|sec|seconds|min|minutes)\b"
)
SAME, LONG_S = 3, 120.0


def facts(evidence: LogEvidence) -> list[Fact]:
    """`rollout_waiting` with `waiting_count` and `elapsed_s`: the same number is out in the last three such lines, for two minutes."""
    seen: list[tuple[int, float, LogLine]] = []
    for line in evidence.lines:
        if found := _WAITING.search(line.text):
            seen.append((int(found[1]), float(found[2]) * (60 if found[3].lower().startswith("m") else 1), line))
    last = seen[-SAME:]
    if (
        len(last) < SAME
        or len({count for count, _, _ in last}) > 1
        or last[-1][1] < LONG_S
        or last[-1][1] <= last[0][1]
    ):
        return []
    count, elapsed, line = last[-1]
    return [Fact("rollout_waiting", line, {"waiting_count": float(count), "elapsed_s": elapsed})]
