"""Reinforcement learning by its figures: reward flat, fallen or collapsed, KL out of range, entropy gone or exploded, all answers cut off.

``reward_flat``, ``reward_part_flat``, ``reward_collapsed``, ``reward_fell``, ``kl_high``, ``kl_exploding``, ``entropy_collapsed``,
``entropy_exploded``, ``responses_all_clipped``.
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
    r"(?:^|[/_ ])(?:reward|rewards/mean|reward/mean|rewards|mean_reward|reward_mean|score/mean|episode_reward_mean|returns?|rew_mean"
    r"|(?:mean|avg|average|total|episode|episodic)[_ ](?:reward|return)s?(?:[_ ]score)?)$"
)
_OVER_EPISODES = re.compile(r"ep_rew_mean|episode|episodic")
"""A mean over the last hundred episodes, say, which moves slowly."""
_PART = re.compile(
    r"(?:^|[/_ ])(?:correct(?:ness)?|accuracy|answer|acc|exact_match)(?:_reward(?:_func)?)?(?:/mean)?$|success[_ ]rate$|solved?[_ ]rate$"
    r"|^rewards/(?:equation|math|solution|task|result)\w{0,12}_reward(?:_func)?(?:/mean)?$"
)
"""The part of a reward that is for being right, beside parts for the form."""
_NOT_MEAN = re.compile(r"std|min|max|margin|chosen|rejected|kl|frac|norm|time|weight|/count")
_KL = re.compile(r"(?:^|[/_ ])(?:kl|ppo_kl|approx_?kl|mean_kl|kl_mean|kl_loss|objective/kl|kl_divergence)(?:/mean)?$")
_OF_POLICY = re.compile(r"reward|rew_mean|return|advantage|polic|pol_|pg_|ppo|grpo|actor|entropy|completion|response")
"""A KL beside none of these is that of a variational model."""
_KL_SETTING = re.compile(r"coef|ctl|target|penalty_coef|beta|scale")
_ENTROPY = re.compile(r"(?:^|[/_ ])entropy(?:/mean)?$")
_EPISODES = re.compile(r"(?:^|[/_ ])(?:total_timesteps|timesteps_total|num_timesteps|env_steps)$")
_CLIPPED = re.compile(r"clip_ratio|clipped_ratio|truncat\w*_(?:ratio|rate|frac\w*)|frac\w*_truncat")

FEWEST, FEW = 20, 8
"""Printed values below which a trend says nothing; and one that leaves no doubt."""
FEWEST_FLAT, FLAT = 6, 0.005
"""A mean over sampled answers moves by more than so small a part of itself from step to step."""
MANY_STEPS, NOTHING = 100_000, 0.05
"""Of environments: so many with hardly any reward say something, however few values were printed."""
SELDOM = 0.2
LEFT = 0.25
"""What is left of a reward that fell."""
NEVER, NEVER_OF_SEVERAL, HARDLY_EVER = 40, 10, 0.02
"""So many printed values of a part of the reward that is zero, but for so few; fewer where each is a mean over several steps, as in TRL."""
KL_LIMIT = 10.0
"""Nats a sequence (or token): no method works at such a distance from its reference."""
CLIMBING = 4
"""So many printed values that all climb leave no doubt either."""
FAR_KL, FAR_KL_TIMES = 2.0, 60
"""So far from its reference, and so many times farther than in its first steps."""
WILD_ENTROPY = 3.0
"""Nats a token: a policy that answers in sentences has a tenth of it."""


def facts(evidence: LogEvidence) -> list[Fact]:
    series = [s for s in evidence.series if s.count >= FEW]
    policy = any(_OF_POLICY.search(s.name) for s in evidence.series)
    whole = [f for s in evidence.series if (f := _reward(evidence, s)) is not None][:1]
    return [
        *whole,
        *([] if whole else _one(_part(evidence, s) for s in series)),
        *(_one(_kl(evidence, s) for s in evidence.series) if policy else ()),
        *_one(_entropy(evidence, s) for s in series),
        *_clipped(series),
    ]


def _one(found: Iterator[Fact | None]) -> list[Fact]:
    return [f for f in found if f is not None][:1]


def _reward(evidence: LogEvidence, series: LogSeries) -> Fact | None:
    if not _REWARD.search(series.name) or _NOT_MEAN.search(series.name):
        return None
    points = trends.finite(series)
    if len(points) < FEWEST_FLAT:
        return None
    first, last = trends.medians(points)
    values: dict[str, float | str] = {"name": series.name, "count": series.count, "first": first, "last": last}
    spread = max(v for _, v in points) - min(v for _, v in points)
    if 0 < spread < FLAT * abs(last) and not _OVER_EPISODES.search(series.name):
        return Fact("reward_flat", trends.line_at(evidence, series.source, points[0][0]), values, series.rank)
    if len(points) < FEW:
        return _sinks(evidence, series, points, values)
    same = len({round(v, 6) for _, v in points}) <= max(1, len(points) // 20)
    if same and (len(points) >= FEWEST or (abs(last) < NOTHING and _long(evidence, series))):
        return Fact("reward_flat", trends.line_at(evidence, series.source, points[0][0]), values, series.rank)
    fell = _fell(evidence, series, points, values)
    return fell or (_collapsed(evidence, series, points, values) if len(points) >= FEWEST else None)


def _long(evidence: LogEvidence, series: LogSeries) -> bool:
    """Whether the environments have made many steps by now."""
    counts = [s for s in evidence.series if s.source == series.source and _EPISODES.search(s.name)]
    return any(v >= MANY_STEPS for s in counts for _, v in s.points)


def _fell(
    evidence: LogEvidence, series: LogSeries, points: list[trends.Point], values: dict[str, float | str]
) -> Fact | None:
    """From the beginning on: hardly anything is left of what it was, beyond its noise."""
    early, late = trends.quarters(points)
    first, last = values["first"], values["last"]
    assert isinstance(first, float)
    assert isinstance(last, float)
    if first <= 0 or last > LEFT * first or max(late) >= min(early) or not trends.sure(points):
        return None
    at = next(p for p in points if p[1] <= (first + last) / 2)
    line = trends.line_at(evidence, series.source, at[0])
    return Fact("reward_fell", line, values | {"at_line": at[0]}, series.rank)


def _sinks(
    evidence: LogEvidence, series: LogSeries, points: list[trends.Point], values: dict[str, float | str]
) -> Fact | None:
    """Few values, of which hardly one is above the one before: from a reward to a loss."""
    rises = trends.rising_share(points)
    if points[0][1] <= 0 or points[-1][1] >= 0 or rises > SELDOM or abs(points[-1][1]) < points[0][1]:
        return None
    values |= {"first": points[0][1], "last": points[-1][1], "at_line": next(n for n, v in points if v < 0)}
    return Fact("reward_fell", trends.line_at(evidence, series.source, points[0][0]), values, series.rank)


def _part(evidence: LogEvidence, series: LogSeries) -> Fact | None:
    """No answer was ever right, while the reward as a whole moves by what is given for the form."""
    if series.count < (NEVER_OF_SEVERAL if series.name.startswith("rewards/") else NEVER) or not _PART.search(
        series.name
    ):
        return None
    if sum(v != 0 for _, v in series.points) > HARDLY_EVER * len(series.points):
        return None
    if not any(_REWARD.search(s.name) for s in evidence.series if s.source == series.source):
        return None
    line = trends.line_at(evidence, series.source, series.points[0][0])
    return Fact("reward_part_flat", line, {"name": series.name, "count": series.count}, series.rank)


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
    if not _ENTROPY.search(series.name) or len(points) < FEW:
        return None
    first, last = trends.medians(points)
    values: dict[str, float | str] = {"entropy_first": first, "entropy_last": last}
    if len(points) >= FEWEST and first > 0.05 and last < 0.1 * first:
        return Fact("entropy_collapsed", None, values, series.rank)
    if first > 0 and last > WILD_ENTROPY and last > 3 * first and trends.sure(points):
        line = trends.line_at(evidence, series.source, points[-1][0])
        return Fact("entropy_exploded", line, values | {"entropy_name": series.name}, series.rank)
    return None


def _clipped(series: list[LogSeries]) -> Iterator[Fact]:
    for s in series:
        points = trends.finite(s)
        if _CLIPPED.search(s.name) and "prompt" not in s.name and len(points) >= FEWEST:
            share = trends.medians(points)[1]
            if 0.9 <= share <= 1:
                yield Fact("responses_all_clipped", None, {"clip_share": f"{share:.0%}"}, s.rank)
                return
