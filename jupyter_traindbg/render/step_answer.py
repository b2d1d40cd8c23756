"""What is said first of the steps of some ranks, and who is meant by it: the slowest, those behind, those on which no step comes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from ..language import counted, later, later_counted, text
from ..model import Meanwhile, RankSteps, Steps
from ..no_step import lasts, seen
from ..step_numbers import behind, step_title, step_words
from ..step_parts import PARTS, StepPart
from ..words.durations import duration
from ..words.ranks import compact_ranks
from .blocks import Answer, Tone
from .common import finite, measured, median
from .units import number, percent, printed

__all__ = ["answer", "behind_by_rank", "first_bad", "late_ranks", "shares_of", "slowest", "worth_a_look"]

SLOWER, TIMED = 1.25, 5
"""A rank is called slow when its median step takes this many times the median of all ranks, and three quarters of its steps took longer
than the others' median: of so many timed steps each. Less is noise."""
ALIKE = 1.1
"""Ranks of which the slowest takes so many times what the quickest does have one pace."""
WAITS = 0.3
"""A share of the step that is spent waiting for data is told from here on."""
TREND = 4
"""The loss falls where three quarters of its last third are below three quarters of its first one: of so many steps each at least."""
Late = tuple[RankSteps, Meanwhile]


def answer(result: Steps, stepped: Sequence[RankSteps]) -> Answer:
    """Why no step comes, where none does; else what is wrong with some rank; else how it goes."""
    ranks, late = result.ranks, late_ranks(result.ranks)
    about = [compact_ranks([r.rank for r in ranks])] if ranks else []
    if stepped:
        living = [r for r in stepped if not r.ended]
        about.append(step_title(*(r.steps[-1].number for r in living or stepped)))
    if not ranks:
        return Answer(text("no rank told of its steps"), about, "warn")
    if not (stepped or late or any(r.ended for r in ranks)):
        return Answer(text("no optimizer step yet"), about)
    missing, wrong = _missing(ranks, late), _wrong(ranks, stepped)
    usual = _usual(stepped, pace=slowest(ranks) is None) if _go_on(ranks, late) else ""
    said = text("; ").join(filter(None, (missing, wrong[0], usual))) or _so_far(stepped)
    return Answer(said, about, wrong[1] if wrong[1] == "bad" or not missing else "warn")


def _go_on(ranks: Sequence[RankSteps], late: Sequence[Late]) -> bool:
    """Whether any of them still steps, as far as is known."""
    return len(late) + sum(bool(r.ended) for r in ranks) < len(ranks)


def _missing(ranks: Sequence[RankSteps], late: Sequence[Late]) -> str:
    """Who makes no steps any more, or for long; nothing where all do."""
    ended = [r.rank for r in ranks if r.ended]
    if len(ended) == len(ranks):
        return _all_ended(ranks)
    if ended:
        return counted("{ended} has ended", "{ended} have ended", len(ended), ended=compact_ranks(ended))
    if not late or len(late) == len(ranks):
        return _none_comes(late) if late else ""
    who, longest = compact_ranks([r.rank for r, _ in late]), max(meanwhile.for_s for _, meanwhile in late)
    words = later_counted("{who} has made no step for {longest:.1f} s", "{who} have made no step for {longest:.1f} s")
    return counted(*words, len(late), who=who, longest=longest)


def _all_ended(ranks: Sequence[RankSteps]) -> str:
    how = list(dict.fromkeys(r.ended for r in ranks))
    said = how[0] if len(how) == 1 else text("all {count} ranks have ended", count=len(ranks))
    return said + text("; the last known steps")


def _none_comes(late: Sequence[Late]) -> str:
    if len(late) == 1:
        return seen(late[0][1])
    least = min(meanwhile.for_s for _, meanwhile in late)
    return text("no optimizer step for {least:.1f} s on any of {count} ranks", least=least, count=len(late))


def late_ranks(ranks: Sequence[RankSteps]) -> list[Late]:
    """Ranks on which no step has come for long, or never."""
    found = [(r, r.meanwhile) for r in ranks if r.meanwhile is not None and not r.note and not r.ended]
    return [(r, seen_) for r, seen_ in found if not r.steps or lasts(seen_, median(s.duration_s for s in r.steps))]


def _wrong(ranks: Sequence[RankSteps], stepped: Sequence[RankSteps]) -> tuple[str, Tone]:
    """What to look at first in the steps that there are; nothing where there is nothing."""
    if bad := [r for r in stepped if _is_bad(r)]:
        return _not_finite(bad, len(ranks)), "bad"
    said = _behind_words(ranks) or _slowest_words(ranks) or _once_not_finite(stepped, several=len(ranks) > 1)
    return said, "warn" if said else "plain"


def _behind_words(ranks: Sequence[RankSteps]) -> str:
    steps = behind_by_rank(ranks)
    if not steps:
        return ""
    worst = max(steps, key=lambda rank: steps[rank])
    more = len(steps) - 1
    words = counted("rank {rank} is {n:,} step behind", "rank {rank} is {n:,} steps behind", steps[worst], rank=worst)
    return words + (counted(", {n:,} other at most as much", ", {n:,} others at most as much", more) if more else "")


def _slowest_words(ranks: Sequence[RankSteps]) -> str:
    slow = slowest(ranks)
    if slow is None:
        return ""
    rank, times = slow
    took = measured(median(s.duration_s for r in ranks if r.rank == rank for s in r.steps), duration).text
    return text(
        "rank {rank} is slowest: {took} a step, {times} x the median", rank=rank, took=took, times=number(times)
    )


def _once_not_finite(stepped: Sequence[RankSteps], *, several: bool) -> str:
    once = next((r for r in stepped if not all(map(math.isfinite, _losses(r)))), None)
    if once is None:
        return ""
    if several:
        return text("the loss was not finite at {at} on rank {rank}", at=first_bad(once), rank=once.rank)
    return text("the loss was not finite at {at}", at=first_bad(once))


def _losses(rank: RankSteps) -> list[float]:
    return [s.loss for s in rank.steps if s.loss is not None]


def _is_bad(rank: RankSteps) -> bool:
    """Whether its last loss is not finite."""
    losses = _losses(rank)
    return bool(losses) and not math.isfinite(losses[-1])


def _not_finite(bad: Sequence[RankSteps], of: int) -> str:
    """Since when, as far as the steps shown tell."""
    rank = bad[0]
    steps = [s for s in rank.steps if s.loss is not None]
    last = max((n for n, s in enumerate(steps) if math.isfinite(s.loss or 0.0)), default=-1)
    what = number(_losses(rank)[-1])
    who = compact_ranks([r.rank for r in bad])
    on = text(" on {ranks}", ranks=who) if len(bad) < of else ""
    if last < 0:
        return text("the loss is {what} at every step shown{on}", what=what, on=on)
    since = step_words(steps[last + 1].number)
    return text("the loss is {what} since {since}{on}", what=what, since=since, on=on)


def _usual(stepped: Sequence[RankSteps], *, pace: bool) -> str:
    """How long a step takes (where `pace`), what for, and the loss; medians over ranks."""
    living = [r for r in stepped if not r.ended] or stepped
    parts = []
    took = finite(median(s.duration_s for s in r.steps) for r in living)
    if took and pace:
        low, high = min(took), max(took)
        figure = duration(statistics.median(took))
        if high > ALIKE * low:
            figure = text("{short_of} to {high}", short_of=_short_of(low, high), high=duration(high))
        parts.append(text("{figure} a step", figure=figure))
    waits = median(shares[0][1] for r in living if (shares := shares_of(r)))
    if waits is not None and waits >= WAITS:
        parts.append(text("{percent} of it waiting for data", percent=percent(waits)))
    loss = median(losses[-1] for r in living if (losses := _losses(r)))
    if loss is not None:
        parts.append(text("loss {loss}", loss=printed(loss)))
        trends = {_trend(r) for r in living if _losses(r)}
        if len(trends) == 1 and (trend := trends.pop()):
            parts.append(text(TRENDS[trend]))
    return text(", ").join(parts)


def _short_of(low: float, high: float) -> str:
    """`low` without its unit, where `high` has the same."""
    figure, _, unit = duration(low).partition(" ")
    return figure if duration(high).endswith(f" {unit}") and " " not in unit else duration(low)


TRENDS = {"falling": later("falling"), "rising": later("rising")}


def _trend(rank: RankSteps) -> str:
    losses = finite(_losses(rank))
    third = len(losses) // 3
    if third < TREND or len({s.optimizer for s in rank.steps}) > 1:
        return ""
    first, last = (statistics.quantiles(part, n=4) for part in (losses[:third], losses[-third:]))
    return "falling" if last[2] < first[0] else "rising" if last[0] > first[2] else ""


def _so_far(stepped: Sequence[RankSteps]) -> str:
    """Where nothing was measured but that there were steps."""
    n = max(len(r.steps) for r in stepped)
    return counted("{n:,} step recorded so far", "{n:,} steps recorded so far", n)


# --- who is meant -----------------------------------------------------------------------------------------------------


def worth_a_look(stepped: Sequence[RankSteps]) -> RankSteps:
    """The rank whose history tells most: its loss is not finite, it has ended, is behind or slow; else the first."""
    slow, steps = slowest(stepped), behind_by_rank(stepped)
    return min(
        stepped,
        key=lambda r: (not _is_bad(r), not r.ended, -steps.get(r.rank, 0), slow is None or r.rank != slow[0]),
    )


def slowest(ranks: Sequence[RankSteps]) -> tuple[int, float] | None:
    """The rank that is clearly slower than the others, and by what factor; None where there is none."""
    timed = {r.rank: finite(s.duration_s for s in r.steps) for r in ranks}
    timed = {rank: took for rank, took in timed.items() if len(took) >= TIMED}
    if len(timed) < 2:
        return None
    middles = {rank: statistics.median(took) for rank, took in timed.items()}
    slow = max(middles, key=lambda rank: middles[rank])
    others = statistics.median(middle for rank, middle in middles.items() if rank != slow)
    usual = statistics.median(middles.values())
    if usual <= 0:
        return None
    times = middles[slow] / usual
    clearly = statistics.quantiles(timed[slow], n=4)[0] > others
    return (slow, times) if times >= SLOWER and clearly else None


def behind_by_rank(ranks: Sequence[RankSteps]) -> dict[int, int]:
    """By rank, how many steps it is behind. Counts of several optimizers say nothing of each other."""
    usual = median(median(s.duration_s for s in r.steps) for r in ranks)
    stepped = [r for r in ranks if r.steps and not r.ended]
    if len({s.optimizer for r in stepped for s in r.steps}) > 1:
        return {}
    return behind({r.rank: r.steps[-1].optimizer_step for r in stepped}, [r.told_s for r in stepped], usual)


def shares_of(rank: RankSteps) -> list[tuple[StepPart, float]]:
    """The share of each part in a step, from the medians of the parts; empty where no step was timed. What few steps have is left out."""
    timed = [s for s in rank.steps if s.duration_s is not None]
    middles = [(part, median(getattr(s, part.field) or 0.0 for s in timed) or 0.0) for part in PARTS]
    whole = sum(m for _, m in middles)
    return [(part, m / whole) for part, m in middles if part.always or m] if whole > 0 else []


def first_bad(rank: RankSteps) -> str:
    return next(step_words(s.number) for s in rank.steps if s.loss is not None and not math.isfinite(s.loss))
