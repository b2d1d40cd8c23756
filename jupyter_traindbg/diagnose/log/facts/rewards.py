"""Reinforcement learning by its figures: reward flat or collapsed, KL out of range, entropy gone, all answers cut off.

``reward_flat``, ``reward_collapsed``, ``kl_high``, ``kl_exploding``, ``entropy_collapsed``, ``responses_all_clipped``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from statistics import median

from ....model import LogEvidence, LogSeries
from .. import trends
from . import Fact

__all__ = ["facts"]

_REWARD = re.compile(
    r"(?:^|[/_ ])(?:reward|rewards/mean|reward/mean|rewards|mean_reward|reward_mean|score/mean|episode_reward_mean|return)$"
)
_NOT_MEAN = re.compile(r"std|min|max|margin|chosen|rejected|kl|frac|norm|time|weight|/count")
_KL = re.compile(r"(?:^|[/_ ])(?:kl|ppo_kl|approx_?kl|mean_kl|kl_mean|kl_loss|objective/kl|kl_divergence)(?:/mean)?$")
_KL_SETTING = re.compile(r"coef|ctl|target|penalty_coef|beta|scale")
_ENTROPY = re.compile(r"(?:^|[/_ ])entropy(?:/mean)?$")
_CLIPPED = re.compile(r"clip_ratio|clipped_ratio|truncat\w*_(?:ratio|rate|frac\w*)|frac\w*_truncat")

FEWEST = 20
"""Printed values below which a trend says nothing."""
KL_LIMIT = 10.0
"""Nats a sequence (or token): no method works at such a distance from its reference."""


def facts(evidence: LogEvidence) -> list[Fact]:
    series = [s for s in evidence.series if s.count >= FEWEST]
    return [
        *_one(_reward(evidence, s) for s in series),
        *_one(_kl(evidence, s) for s in series),
        *_entropy(series),
        *_clipped(series),
    ]


def _one(found: Iterator[Fact | None]) -> list[Fact]:
    return [f for f in found if f is not None][:1]


def _reward(evidence: LogEvidence, series: LogSeries) -> Fact | None:
    if not _REWARD.search(series.name) or _NOT_MEAN.search(series.name):
        return None
    points = trends.finite(series)
    if len(points) < FEWEST:
        return None
    first, last = trends.medians(points)
    values: dict[str, float | str] = {"name": series.name, "count": series.count, "first": first, "last": last}
    if len({round(v, 6) for _, v in points}) <= max(1, len(points) // 20):
        return Fact("reward_flat", trends.line_at(evidence, series.source, points[0][0]), values, series.rank)
    return _collapsed(evidence, series, points, values)


def _collapsed(
    evidence: LogEvidence, series: LogSeries, points: list[trends.Point], values: dict[str, float | str]
) -> Fact | None:
    """It had risen well above its noise, and lost (nearly) all of that for the last quarter."""
    size = max(5, len(points) // 10)
    windows = [median([v for _, v in points[i : i + size]]) for i in range(len(points) - size + 1)]
    best = max(windows)
    at = points[windows.index(best) + size // 2]
    first, last = trends.medians(points)
    risen = best - first
    if risen < 4 * trends.noise(points) or last > first + 0.1 * risen or at[0] > points[-len(points) // 4][0]:
        return None
    line = trends.line_at(evidence, series.source, at[0])
    return Fact("reward_collapsed", line, values | {"best": best, "best_line": at[0]}, series.rank)


def _kl(evidence: LogEvidence, series: LogSeries) -> Fact | None:
    if not _KL.search(series.name) or _KL_SETTING.search(series.name):
        return None
    points = trends.finite(series)
    if len(points) < FEWEST:
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
    whole_sequence = "objective" in series.name  # summed over a sequence: tens are usual
    return Fact("kl_high", line, values, series.rank) if last > KL_LIMIT * (10 if whole_sequence else 1) else None


def _entropy(series: list[LogSeries]) -> Iterator[Fact]:
    for s in series:
        points = trends.finite(s)
        if _ENTROPY.search(s.name) and len(points) >= FEWEST:
            first, last = trends.medians(points)
            if first > 0.05 and last < 0.1 * first:
                yield Fact("entropy_collapsed", None, {"entropy_first": first, "entropy_last": last}, s.rank)
                return


def _clipped(series: list[LogSeries]) -> Iterator[Fact]:
    for s in series:
        points = trends.finite(s)
        if _CLIPPED.search(s.name) and "prompt" not in s.name and len(points) >= FEWEST:
            share = trends.medians(points)[1]
            if 0.9 <= share <= 1:
                yield Fact("responses_all_clipped", None, {"clip_share": f"{share:.0%}"}, s.rank)
                return
