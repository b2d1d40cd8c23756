"""A reward that is flat or falls: ``reward_flat``, ``reward_part_flat``, ``reward_fell``, ``reward_collapsed``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
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
_EPISODES = re.compile(r"(?:^|[/_ ])(?:total_timesteps|timesteps_total|num_timesteps|env_steps)$")

FEWEST, FEW, FEWEST_FLAT = 20, 8, 6
"""Printed values below which a trend says nothing; one that leaves no doubt; and what hardly moves, or hardly ever rises."""
FLAT = 0.005
"""A mean over sampled answers moves by more than so small a part of itself from step to step."""
MANY_STEPS, NOTHING = 100_000, 0.05
"""Of environments: so many with hardly any reward say something, however few values were printed."""
LEFT, SELDOM = 0.25, 0.2
"""What is left of a reward that fell, and how often one that sinks rises."""
NEVER, NEVER_OF_SEVERAL, HARDLY_EVER = 40, 10, 0.02
"""So many printed values of a part of the reward that is zero, but for so few; fewer where each is a mean over several steps, as in TRL."""


@dataclass(frozen=True)
class _Reward:
    """A mean reward that is printed again and again."""

    evidence: LogEvidence
    series: LogSeries

    @cached_property
    def points(self) -> list[trends.Point]:
        return trends.finite(self.series)

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The medians of its first and of its last quarter."""
        return trends.medians(self.points)

    def told(self, name: str, at: trends.Point, **more: float) -> Fact:
        first, last = self.ends
        values: dict[str, float | str] = {
            "name": self.series.name,
            "count": self.series.count,
            "first": first,
            "last": last,
            **more,
        }
        return Fact(name, trends.line_at(self.evidence, self.series.source, at[0]), values, self.series.rank)


def facts(evidence: LogEvidence) -> list[Fact]:
    rewards = [_Reward(evidence, s) for s in evidence.series if _REWARD.search(s.name) and not _NOT_MEAN.search(s.name)]
    rewards = [reward for reward in rewards if len(reward.points) >= FEWEST_FLAT]
    rules = (_flat, _fell, _sinks, _collapsed)
    found = (fact for reward in rewards for rule in rules if (fact := rule(reward)) is not None)
    whole = next(found, None)
    return [whole] if whole is not None else _part(evidence)


def _flat(reward: _Reward) -> Fact | None:
    """The same at (nearly) every step, or within a hair's breadth; few values of none at all count after many steps of the environments."""
    values = [v for _, v in reward.points]
    nearly = 0 < max(values) - min(values) < FLAT * abs(reward.ends[1]) and not _OVER_EPISODES.search(
        reward.series.name
    )
    same = len({round(v, 6) for v in values}) <= max(1, len(values) // 20)
    never = len(values) >= FEW and abs(reward.ends[1]) < NOTHING and _long(reward)
    if nearly or (same and (len(values) >= FEWEST or never)):
        return reward.told("reward_flat", reward.points[0])
    return None


def _long(reward: _Reward) -> bool:
    """Whether the environments have made many steps by now."""
    counts = [s for s in reward.evidence.series if s.source == reward.series.source and _EPISODES.search(s.name)]
    return any(v >= MANY_STEPS for s in counts for _, v in s.points)


def _fell(reward: _Reward) -> Fact | None:
    """From the beginning on: hardly anything is left of what it was, beyond its noise."""
    early, late = trends.quarters(reward.points)
    first, last = reward.ends
    if len(reward.points) < FEW or first <= 0 or last > LEFT * first or max(late) >= min(early):
        return None
    if not trends.sure(reward.points):
        return None
    at = next(p for p in reward.points if p[1] <= (first + last) / 2)
    return reward.told("reward_fell", at, at_line=at[0])


def _sinks(reward: _Reward) -> Fact | None:
    """Few values, of which hardly one is above the one before: from a reward to a loss."""
    points = reward.points
    begin, end = points[0][1], points[-1][1]
    if len(points) >= FEW or not end < -begin < 0 or trends.rising_share(points) > SELDOM:
        return None
    at = next(p for p in points if p[1] < 0)
    return reward.told("reward_fell", points[0], first=begin, last=end, at_line=at[0])


def _collapsed(reward: _Reward) -> Fact | None:
    """It had risen well above its noise, and lost (nearly) all of that for the last quarter."""
    points = reward.points
    if len(points) < FEWEST:
        return None
    size = max(5, len(points) // 10)
    windows = [median([v for _, v in points[i : i + size]]) for i in range(len(points) - size + 1)]
    best = max(windows)
    at = points[windows.index(best) + size // 2]
    first, last = reward.ends
    risen = best - first
    if risen < 4 * trends.noise(points) or last > first + 0.1 * risen or at[0] > points[-len(points) // 4][0]:
        return None
    return reward.told("reward_collapsed", at, best=best, best_line=at[0])


def _part(evidence: LogEvidence) -> list[Fact]:
    """No answer was ever right, while the reward as a whole moves by what is given for the form."""
    sources = {s.source for s in evidence.series if _REWARD.search(s.name)}
    for s in evidence.series:
        fewest = NEVER_OF_SEVERAL if s.name.startswith("rewards/") else NEVER
        if s.count >= fewest and s.source in sources and _PART.search(s.name) and _hardly_ever(s.points):
            line = trends.line_at(evidence, s.source, s.points[0][0])
            return [Fact("reward_part_flat", line, {"name": s.name, "count": s.count}, s.rank)]
    return []


def _hardly_ever(points: Sequence[trends.Point]) -> bool:
    return sum(v != 0 for _, v in points) <= HARDLY_EVER * len(points)
