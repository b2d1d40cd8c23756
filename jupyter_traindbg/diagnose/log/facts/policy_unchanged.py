"""The generating policy does not change although it is trained: what a missing weight update of the inference engine looks like.

A mean reward or response length over freshly sampled texts is never the same to the last digit for many steps, unless the same weights
answer the same prompts in the same way. A constant reward alone is not enough (a broken reward function gives it too), so a second figure
that is computed from the sampled texts has to stand still as well, while the trainer's gradient norm is not zero.
"""

from __future__ import annotations

import re

from ....model import LogEvidence, LogSeries
from . import Fact

__all__ = ["facts"]

_SAMPLED = re.compile(
    r"(?i)^(?:critic/|rollout/|train/)?(?:response_length/mean|rewards?(?:/mean|_mean)?|score(?:s)?/mean|rewards/mean|completion_length|mean_length)$"
)
_LEARNING = re.compile(r"(?i)grad_?norm$")
STEPS = 5


def facts(evidence: LogEvidence) -> list[Fact]:
    """`policy_unchanged` with `unchanged_name`, `unchanged_value`, `unchanged_count`; [] with fewer than two figures that stand still."""
    learning = any(_LEARNING.search(s.name) and any(v > 0 for _, v in s.points) for s in evidence.series)
    still = [s for s in evidence.series if _SAMPLED.search(s.name) and _stands(s)]
    if not learning or len({s.name for s in still}) < 2:
        return []
    first = min(still, key=lambda s: s.name)
    at = first.points[0][0]
    line = next((x for x in evidence.lines if x.source == first.source and x.number == at), None)
    values: dict[str, float | str] = {
        "unchanged_name": " / ".join(sorted({s.name for s in still})),
        "unchanged_value": f"{first.points[0][1]:.6g}",
        "unchanged_count": float(min(s.count for s in still)),
    }
    return [Fact("policy_unchanged", line, values)]


def _stands(series: LogSeries) -> bool:
    """The same to the last digit, and a number with digits: 0 and 1 are also what a reward that never succeeds gives."""
    distinct = {value for _, value in series.points}
    value = next(iter(distinct), 0.0)
    return series.count >= STEPS and len(distinct) == 1 and value != round(value, 2)
