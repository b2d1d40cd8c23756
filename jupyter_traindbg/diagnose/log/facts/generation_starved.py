"""Generation by an engine's own statistics (vLLM's "Avg generation throughput"): slower since the KV cache is full, or one that never
begins, as a prompt fills the cache, is thrown out, and begins again.

Preemption as such is normal under load and no failure; it is told only where throughput has fallen to less than half of what it was.
"""

from __future__ import annotations

import re

from ....model import LogEvidence, LogLine
from . import Fact

__all__ = ["facts"]

_STATS = re.compile(
    r"(?i)generation throughput:\s*(\d{1,9}(?:\.\d{1,6})?)\s*tokens/s.{0,80}?Waiting:\s*(\d{1,9})\s*reqs.{0,120}?(?:GPU )?"
    r"KV cache usage:\s*(\d{1,9}(?:\.\d{1,6})?)%"
)
_PREEMPTED = re.compile(r"(?i)total_(?:num_)?cumulative_preemption(?:_cnt)?=(\d{1,9})")
FULL_PERCENT, SLOWER, SAMPLES = 95.0, 2.0, 3
EMPTY_PERCENT, TIMES = 5.0, 2


def facts(evidence: LogEvidence) -> list[Fact]:
    """`generation_starved`: `first_tokens`, `last_tokens` (per second), `slower`, `last_usage` (percent), `last_queued`,
    `preempted_count`; or `generation_never_begins`: `full_usage`, `full_count`, `stats_count`.
    """
    again = _again_and_again(evidence)
    if again is not None:
        return [again]
    rows: list[tuple[float, int, float, LogLine]] = []
    preempted = 0
    for line in evidence.lines:
        if found := _STATS.search(line.text):
            rows.append((float(found[1]), int(found[2]), float(found[3]), line))
        elif told := _PREEMPTED.search(line.text):
            preempted = max(preempted, int(told[1]))
    full = [row for row in rows[-SAMPLES:] if row[2] >= FULL_PERCENT and row[1] > 0]
    best = max((row[0] for row in rows), default=0.0)
    if len(full) < SAMPLES or best < SLOWER * max(row[0] for row in full):
        return []
    tokens, queued, usage, line = full[-1]
    values: dict[str, float | str] = {
        "first_tokens": f"{best:.0f}",
        "last_tokens": f"{tokens:.0f}",
        "slower": f"{best / max(tokens, 0.1):.1f}",
        "last_usage": f"{usage:.0f}",
        "last_queued": str(queued),
    }
    if preempted:
        values["preempted_count"] = float(preempted)
    return [Fact("generation_starved", line, values)]


def _again_and_again(evidence: LogEvidence) -> Fact | None:
    """The cache is full, then empty, then full again, and in all that time no token comes."""
    found = [(m, line) for line in evidence.lines if (m := _STATS.search(line.text))]
    usages = [float(m[3]) for m, _ in found]
    if any(float(m[1]) > 0 for m, _ in found):
        return None
    full = [i for i, usage in enumerate(usages) if usage >= FULL_PERCENT]
    emptied = [i for i in full if any(usage <= EMPTY_PERCENT for usage in usages[i + 1 :])]
    if len(full) < TIMES or not emptied:
        return None
    values: dict[str, float | str] = {
        "full_usage": f"{max(usages):.0f}",
        "full_count": float(len(full)),
        "stats_count": float(len(found)),
    }
    return Fact("generation_never_begins", found[full[0]][1], values)
