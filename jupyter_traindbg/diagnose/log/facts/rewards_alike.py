"""Groups of answers that all got one and the same reward at every printed step, which teaches nothing: ``rewards_alike``."""

from __future__ import annotations

import re

from ....model import LogEvidence
from .. import trends
from . import Fact

__all__ = ["facts"]

_ALIKE = re.compile(r"(?:^|[/_ ])(?:frac_reward_zero_std|zero_var_ratio|reward_zero_std_frac)$")
"""The share of groups without any spread: 1 where none has one."""
_SPREAD = re.compile(r"^(?:train/)?(?:reward_std|rewards?/std)$")
"""Of the whole reward; one of its parts may well be the same for all."""


def facts(evidence: LogEvidence) -> list[Fact]:
    """`alike_count`: how many steps were printed, and `alike_name`, the figure that tells it. Of several ranks, the first."""
    for series in evidence.series:
        points = trends.finite(series)
        nothing = 1.0 if _ALIKE.search(series.name) else 0.0 if _SPREAD.search(series.name) else None
        if nothing is not None and points and all(value == nothing for _, value in points):
            line = trends.line_at(evidence, series.source, points[-1][0])
            values: dict[str, float | str] = {"alike_name": series.name, "alike_count": series.count}
            return [Fact("rewards_alike", line, values, series.rank)]
    return []
