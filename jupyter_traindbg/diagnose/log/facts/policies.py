"""A policy by its figures: ``kl_high``, ``kl_exploding``, ``entropy_collapsed``, ``entropy_exploded``, ``responses_all_clipped``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from statistics import median

from ....model import LogEvidence, LogSeries
from .. import trends
from . import Fact

__all__ = ["facts"]

_KL = re.compile(r"(?:^|[/_ ])(?:kl|ppo_kl|approx_?kl|mean_kl|kl_mean|kl_loss|objective/kl|kl_divergence)(?:/mean)?$")
_KL_SETTING = re.compile(r"coef|ctl|target|penalty_coef|beta|scale")
_OF_POLICY = re.compile(r"reward|rew_mean|return|advantage|polic|pol_|pg_|ppo|grpo|actor|entropy|completion|response")
"""A KL beside none of these is that of a variational model."""
_ENTROPY = re.compile(r"(?:^|[/_ ])entropy(?:/mean)?$")
_CLIPPED = re.compile(r"clip_ratio|clipped_ratio|truncat\w*_(?:ratio|rate|frac\w*)|frac\w*_truncat")

FEWEST, FEW = 20, 8
"""Printed values below which a trend says nothing; and one that leaves no doubt."""
KL_LIMIT = 10.0
"""Nats a sequence (or token): no method works at such a distance from its reference."""
CLIMBING = 4
"""So many printed values that all climb leave no doubt either."""
FAR_KL, FAR_KL_TIMES = 2.0, 60
"""So far from its reference, and so many times farther than in its first steps."""
WILD_ENTROPY = 3.0
"""Nats a token: a policy that answers in sentences has a tenth of it."""


def facts(evidence: LogEvidence) -> list[Fact]:
    series = evidence.series
    kls = [s for s in series if _KL.search(s.name) and not _KL_SETTING.search(s.name)]
    if not any(_OF_POLICY.search(s.name) for s in series):
        kls = []
    return [
        *_first(_kl(evidence, s) for s in kls),
        *_first(_entropy(evidence, s) for s in series if _ENTROPY.search(s.name)),
        *_first(_clipped(s) for s in series if _CLIPPED.search(s.name) and "prompt" not in s.name),
    ]


def _first(found: Iterator[Fact | None]) -> list[Fact]:
    return [fact for fact in found if fact is not None][:1]


def _kl(evidence: LogEvidence, series: LogSeries) -> Fact | None:
    points = trends.finite(series)
    if len(points) < (CLIMBING if trends.climbs(points) else FEW):
        return None
    first, last = trends.medians(points)
    typical = median([v for _, v in points])
    values: dict[str, float | str] = {
        "name": series.name,
        "count": series.count,
        "first": first,
        "last": last,
        "typical": typical,
        "last_line": points[-1][0],
        "limit": KL_LIMIT,
        "share": f"{sum(v > KL_LIMIT for _, v in points) / len(points):.0%}",
    }
    line = trends.line_at(evidence, series.source, points[-1][0])
    if last > 1 and last > 20 * max(abs(first), 1e-3) and last > 5 * abs(typical):
        return Fact("kl_exploding", line, values, series.rank)
    begin = abs(points[0][1]) if trends.climbs(points) else median([abs(v) for _, v in points[:3]])
    if last > FAR_KL and last > FAR_KL_TIMES * max(begin, 1e-3):
        return Fact("kl_exploding", line, values | {"first": begin}, series.rank)
    whole_sequence = "objective" in series.name  # summed over a sequence: tens are usual
    return Fact("kl_high", line, values, series.rank) if last > KL_LIMIT * (10 if whole_sequence else 1) else None


def _entropy(evidence: LogEvidence, series: LogSeries) -> Fact | None:
    points = trends.finite(series)
    if len(points) < FEW:
        return None
    first, last = trends.medians(points)
    values: dict[str, float | str] = {"entropy_first": first, "entropy_last": last}
    if len(points) >= FEWEST and first > 0.05 and last < 0.1 * first:
        return Fact("entropy_collapsed", None, values, series.rank)
    if first > 0 and last > WILD_ENTROPY and last > 3 * first and trends.sure(points):
        line = trends.line_at(evidence, series.source, points[-1][0])
        return Fact("entropy_exploded", line, values | {"entropy_name": series.name}, series.rank)
    return None


def _clipped(series: LogSeries) -> Fact | None:
    points = trends.finite(series)
    share = trends.medians(points)[1] if len(points) >= FEWEST else 0.0
    if not 0.9 <= share <= 1:
        return None
    return Fact("responses_all_clipped", None, {"clip_share": f"{share:.0%}"}, series.rank)
