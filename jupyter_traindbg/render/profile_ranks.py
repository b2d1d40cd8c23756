"""Which ranks of a profile are worth a look, and what they were seen at: for its view and its picture. Pure functions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ..frames.whose import where
from ..model import Frame, RankProfile

__all__ = ["SLOWER", "Told", "busiest", "pace_s", "told_of"]

SLOWER = 1.05
"""A rank whose steps take more times as long as those of the middle one is slower than that; below it is noise."""
WAITED_FOR, WAITS = 0.2, 0.5
"""From this share of a step on that the middle rank spends in collective calls, and this one does not, all wait for this one; if it waits
less than half as long itself. Five steps of ranks that share CPUs differ by less than that by chance.
"""


@dataclass(frozen=True)
class Told:
    """The rank that the answer is about: the slowest one or, where all steps take as long since ranks wait for each other, the one that
    waits least. ``middle``: the one in the middle of all, by their steps or waits, where it is another.

    ``times``: how many times as long as the middle one's a step of the slowest takes; 1 where that is not known. ``waited_s``: how much
    more of a step the middle one waits in collective calls; 0 where all wait alike.
    """

    rank: RankProfile
    middle: RankProfile | None = None
    times: float = 1.0
    waited_s: float = 0.0

    @property
    def slower(self) -> bool:
        return self.times > SLOWER


def pace_s(rank: RankProfile) -> float | None:
    """How long a step of it takes: one that was recorded, else a usual one; None where neither is known."""
    known = (s for s in (rank.step_s, rank.usual_step_s) if s is not None and math.isfinite(s) and s > 0)
    return next(known, None)


def told_of(ranks: Sequence[RankProfile]) -> Told | None:
    """None where nothing was seen of any rank."""
    seen = [rank for rank in ranks if rank.steps or rank.looks]
    recorded = [rank for rank in seen if rank.steps]
    paced = [(pace, -rank.rank, rank) for rank in recorded or seen if (pace := pace_s(rank)) is not None]
    if not paced:
        return Told((recorded or seen)[0]) if seen else None
    slowest_s, _, slowest = max(paced, key=lambda one: one[:2])
    middle_s = statistics.median_low(pace for pace, *_ in paced)
    middle = next(rank for pace, _, rank in paced if pace == middle_s)
    if slowest_s <= SLOWER * middle_s and (waited_for := _waited_for(recorded, middle_s)) is not None:
        return waited_for
    return Told(slowest, None if middle is slowest else middle, slowest_s / middle_s)


def _waited_for(recorded: Sequence[RankProfile], step_s: float) -> Told | None:
    """The rank that waits least for others in collective calls, where the middle one waits for a good part of a step more."""
    known = [
        (waits, rank.rank, rank)
        for rank in recorded
        if (waits := rank.collectives_s) is not None and math.isfinite(waits)
    ]
    if len(known) < 2:
        return None
    least_s, _, least = min(known, key=lambda one: one[:2])
    middle_s, _, middle = sorted(known, key=lambda one: one[:2])[len(known) // 2]
    more_s = middle_s - least_s
    stands_out = more_s >= WAITED_FOR * step_s and least_s < WAITS * middle_s
    return Told(least, middle, waited_s=more_s) if stands_out else None


def busiest(rank: RankProfile) -> tuple[Frame, float] | None:
    """The user's line that was seen most often, else the place in a library; and its share of the looks. None where there was no look."""
    if rank.lines:
        return rank.lines[0].frame, rank.lines[0].share
    shares: dict[tuple[str, int, str], float] = {}
    frames: dict[tuple[str, int, str], Frame] = {}
    for stack in rank.stacks:
        at = where(stack.frames)
        if at is not None:
            key = (at.file, at.line, at.function)
            frames[key] = at
            shares[key] = shares.get(key, 0.0) + stack.share
    most = max(shares, key=lambda key: shares[key], default=None)
    return None if most is None else (frames[most], shares[most])
