"""What Ray's workers wait for, how long, and how much the job's groups ask for in all.

Ray's autoscaler repeats "cannot be scheduled right now" while a request waits, each time with the age of the job ("+9m40s"). One such line
at start says little; the same request minutes later is a job that stands still. Frameworks that reserve GPUs by group print the sizes.
"""

from __future__ import annotations

import re

from ....language import text
from ....model import LogEvidence, LogLine
from . import Fact

__all__ = ["facts"]

_AGE = re.compile(r"\((?:autoscaler|scheduler|pid=autoscaler)[^)]*?\+((?:\d+[dhms])+)\)")
_REQUEST = re.compile(r"(?i)cannot be scheduled right now:\s*(\{[^}\n]{3,120}\})")
_PART = re.compile(r"(\d{1,9})([dhms])")
_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_GROUP = re.compile(r"(?i)^[\s|>*-]*([A-Z][\w /().-]{2,40}?)\s*:\s*(\d{1,4})\s*(?:x\s*)?GPUs?\b")
_TOTAL = re.compile(
    r"(?i)(?:(?:total|available|cluster|host|node|machine)[\w ]{0,24}GPUs?\s*[:=]\s*(\d{1,5})"
    r"|\b(\d{1,5})\s*GPUs?\s+(?:in total|available|on this (?:host|node)))"
)
_USED = re.compile(r"(?<![\d.])\d{1,6}(?:\.\d{1,4})?/(\d{1,6}(?:\.\d{1,4})?)\s{1,9}GPU\b")
STANDING_S = 120.0
"""From this age on a request that is still repeated is no matter of start-up."""


def facts(evidence: LogEvidence) -> list[Fact]:
    """`workers_pending` (a request repeated for two minutes) and `gpus_demanded` (the sum of the groups' GPUs)."""
    return [fact for fact in (_pending(evidence), _demanded(evidence)) if fact]


def _pending(evidence: LogEvidence) -> Fact | None:
    first: tuple[float, LogLine, str] | None = None
    last: tuple[float, LogLine, str] | None = None
    count = 0
    for line in evidence.lines:
        request = _REQUEST.search(line.text)
        age = _AGE.search(line.text) if request else None
        if not request or not age:
            continue
        count += line.repeats
        seen = (sum(int(n) * _SECONDS[u] for n, u in _PART.findall(age[1])), line, request[1])
        first, last = first or seen, seen
    if first is None or last is None or last[0] < STANDING_S:
        return None
    values: dict[str, float | str] = {
        "counted_request": last[2],
        "pending_s": float(last[0]),
        "warnings_count": float(count),
    }
    return Fact("workers_pending", last[1], values)


def _demanded(evidence: LogEvidence) -> Fact | None:
    """Groups as "Reward Model Workers: 8 GPUs"; the total where the log has it ("Total GPUs: 8", "0.0/8.0 GPU" of `ray status`)."""
    groups: dict[str, int] = {}
    at: LogLine | None = None
    available: float | None = None
    for line in evidence.lines:
        if "gpu" not in line.text.lower():
            continue  # far cheaper than three patterns
        total, used = _TOTAL.search(line.text), _USED.search(line.text)
        if used:
            available = float(used[1])
        elif total:
            available = float(total[1] or total[2])
        elif group := _GROUP.search(line.text):
            groups[group[1].strip()] = int(group[2])
            at = line
    if len(groups) < 2:
        return None
    listed = " + ".join(f"{n} ({name})" for name, n in groups.items())
    values: dict[str, float | str] = {"demanded_count": float(sum(groups.values())), "demanded_list": listed}
    if available is not None:
        values["available_count"] = available
    words = text("in all {count} GPUs", count=sum(groups.values()))
    return Fact("gpus_demanded", at, values, words=words)
