"""Whether ranks follow one schedule although they were asked at different steps: then one's rates, carried on by the steps between them,
are the other's. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence

from .model import Maybe, NotAvailable, OptimizerGroup, OptimizerLr, RankLr

__all__ = ["agree", "joined", "same_schedule"]

SAME = 1e-6
"""Rates that differ by less are equal: one that a tensor keeps as float32 differs in the eighth digit from what a schedule gives."""
BETWEEN = 1
"""Between an optimizer's step and its scheduler's, the schedule is so many steps behind."""
FEW = 2
"""So many rates that two ranks should have in common are not enough to say that they have not: a step may come while one is read."""


def same_schedule(one: RankLr, other: RankLr) -> bool | None:
    """Whether the learning rates of two ranks are those of one schedule, with the same changes of ours in force on them.

    None where that cannot be told: no schedule is known, it is not known as far as the other rank has got, the optimizers do not count
    their steps, or a rank was asked between its optimizer's step and its scheduler's.
    """
    if len(one.optimizers) != len(other.optimizers) or _changes(one) != _changes(other):
        return False
    return _all(_same(mine, its) for mine, its in zip(one.optimizers, other.optimizers, strict=True))


def agree(ranks: Iterable[RankLr]) -> bool:
    """Whether all ranks use the same, or follow one schedule."""
    groups: dict[str, list[RankLr]] = {}
    for rank in ranks:
        groups.setdefault(repr([(o.optimizer, list(o.groups)) for o in rank.optimizers]), []).append(rank)
    return len(joined(groups.values())) <= 1


def joined(groups: Iterable[Sequence[RankLr]]) -> list[list[RankLr]]:
    """Groups of equal ranks, put together where they follow one schedule; in each the rank that has got least far comes first."""
    courses: list[list[RankLr]] = []
    passing: dict[Hashable, dict[int, list[RankLr]]] = {}
    for group in sorted(groups, key=lambda ranks: _position(ranks[0])):
        places = _places(group[0])
        candidates = passing.get(places[0], {}) if places else {}
        course = next((known for known in candidates.values() if same_schedule(known[-1], group[0])), None)
        if course is None:
            courses.append(course := [])
        course.extend(group)
        for place in places:
            passing.setdefault(place, {})[id(course)] = course
    return sorted(courses, key=lambda course: min(rank.rank for rank in course))


def _position(rank: RankLr) -> list[int]:
    """How far each of its optimizers has got."""
    known = [(_own(optimizer), _known(optimizer.scheduler_step)) for optimizer in rank.optimizers]
    return [step if step is not None else scheduled or 0 for step, scheduled in known]


def _places(rank: RankLr) -> list[tuple[int, str]]:
    """Where the schedule of its first group is, and will be: only who passes the same place is looked at, so that a thousand ranks on a
    thousand schedules are not compared each with each.
    """
    first = next((group for optimizer in rank.optimizers[:1] for group in optimizer.groups[:1]), None)
    course = [] if first is None else _course(first)
    return [(_position(rank)[0] + n, f"{rate:.5g}") for n, rate in enumerate(course)]


def _changes(rank: RankLr) -> list[tuple[int, int | None, str]]:
    return [(a.optimizer, a.group, a.action) for a in rank.in_force if a.setting == "lr"]


def _own(optimizer: OptimizerLr) -> int | None:
    return None if optimizer.number is None else optimizer.number.own


def _known(step: Maybe[int]) -> int | None:
    return None if isinstance(step, NotAvailable) else step


def _all(verdicts: Iterable[bool | None]) -> bool | None:
    seen = set(verdicts)
    return False if False in seen else None if None in seen else True


def _between(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else other - one


def _same(one: OptimizerLr, other: OptimizerLr) -> bool | None:
    if one.optimizer != other.optimizer or len(one.groups) != len(other.groups):
        return False
    steps = _between(_own(one), _own(other))
    scheduled = _between(_known(one.scheduler_step), _known(other.scheduler_step))
    if not steps:
        return _at_one_step(one, other, steps, scheduled)
    if one.scheduler != other.scheduler or scheduled not in (None, steps):
        return None
    return _all(_carried(one, other, steps))


def _at_one_step(one: OptimizerLr, other: OptimizerLr, steps: int | None, scheduled: int | None) -> bool | None:
    """The same where both have made as many steps, or (`steps` is None) nobody counts them."""
    if not scheduled:
        return _all(_carried(one, other, 0))
    if steps == 0 and abs(scheduled) > BETWEEN:
        return False
    return False if _all(_carried(one, other, scheduled)) is False else None


def _carried(one: OptimizerLr, other: OptimizerLr, steps: int) -> Iterator[bool | None]:
    early, late = (one, other) if steps >= 0 else (other, one)
    for before, after in zip(early.groups, late.groups, strict=True):
        yield _reaches(before, after, abs(steps))


def _reaches(before: OptimizerGroup, after: OptimizerGroup, steps: int) -> bool | None:
    """Whether the rates of a group, `steps` steps later, are those of another one; None where some are, and not in their places."""
    known, found = _course(before)[steps:], _course(after)
    if not known or not found:
        return None if steps else False
    if all(_close(*pair) for pair in zip(known, found, strict=False)):
        return _used_alike(before, after)
    if steps and len(known) <= FEW:
        return None
    return None if any(_close(rate, its) for rate in _course(before) for its in found) else False


def _course(group: OptimizerGroup) -> list[float]:
    """What is set now, and at the next steps as far as that is known."""
    if isinstance(group.lr, NotAvailable):
        return []
    return [group.lr, *(() if isinstance(group.next_lr, NotAvailable) else group.next_lr)]


def _used_alike(before: OptimizerGroup, after: OptimizerGroup) -> bool:
    """Whether both use the rate that is set, the same multiple of it, or one and the same in its place."""
    set_before, used_before, set_after, used_after = (
        0.0 if isinstance(rate, NotAvailable) else rate
        for rate in (before.lr, before.effective_lr, after.lr, after.effective_lr)
    )
    return _close(used_before, used_after) or _close(used_after * set_before, used_before * set_after)


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=SAME, abs_tol=1e-15)
