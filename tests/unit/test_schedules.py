"""Which ranks follow one schedule though they were asked at different steps. Never are ranks called the same that are not."""

from __future__ import annotations

import dataclasses
from typing import Any

from cases import each

from jupyter_traindbg.model import InForce, NotAvailable, OptimizerGroup, OptimizerLr, RankLr
from jupyter_traindbg.schedules import agree, joined, same_schedule

NOT_HERE = NotAvailable("not here")
FALLING = [1e-3 * 0.99**n for n in range(100)]
WARM_UP = [1e-3 * n for n in range(1, 101)]
SCALED = (InForce(0, "AdamW", 0, "lr", "scale 0.5", NOT_HERE, NOT_HERE),)
HELD = (InForce(0, "AdamW", 0, "lr", "hold 0.001", NOT_HERE, NOT_HERE),)


def group(rate: Any, following: Any, used: Any = None) -> OptimizerGroup:
    return OptimizerGroup(0, rate, 0.1, None, (0.9, 0.95), 10, 1000, following, rate if used is None else used)


def at(step: int, rates: list[float] = FALLING, *, ahead: int = 5, **more: Any) -> RankLr:
    """A rank after `step` steps of a schedule; `own` and `scheduled` where it counts otherwise, `actions` and what is `used`."""
    following = rates[step + 1 : step + 1 + ahead] if ahead else NOT_HERE
    groups = (group(rates[step], following, more.get("used")),)
    name = more.get("scheduler", "LambdaLR")
    own, scheduled = more.get("own", step), more.get("scheduled", step)
    optimizer = OptimizerLr("AdamW", groups, name, scheduled, step=3, optimizer_step=own)
    return RankLr(0, 1000, (optimizer,), in_force=more.get("actions", ()))


def scaled(rates: list[float], by: float) -> list[float]:
    return [rate * by for rate in rates]


@each(
    ("one", "other", "verdict"),
    [
        (at(10), at(10), True),
        (at(10), at(11), True),
        (at(15), at(10), True),
        (at(10), at(15), True),
        (at(10), at(16), None),  # further than the schedule was told
        (at(10, scheduled=NOT_HERE), at(12, scheduled=NOT_HERE), True),
        # other schedules
        (at(10), at(11, scaled(FALLING, 2)), False),
        (at(10), at(11, scaled(FALLING, 1.0001)), False),
        (at(11), at(10, scaled(FALLING, 0.5)), False),
        (at(10), at(10, scaled(FALLING, 2)), False),
        (at(10, WARM_UP), at(11, scaled(WARM_UP, 3.3)), False),
        (at(10, scheduler=NOT_HERE, ahead=0), at(10, scaled(FALLING, 2), scheduler=NOT_HERE, ahead=0), False),
        (at(10), RankLr(1, 1001, ()), False),
        # it cannot be told
        (at(10, scheduler=NOT_HERE, ahead=0), at(11, scheduler=NOT_HERE, ahead=0), None),
        (at(10), at(11, scheduler="StepLR"), None),
        (at(11, own=10), at(11), None),  # asked between the optimizer's step and the scheduler's
        (at(10, own=11), at(11), None),
        (at(11, own=10), at(10), None),
        (at(10), at(11, [*FALLING[:11], *FALLING[10:]]), None),  # a step came between the reading of its rates
        # one whose schedule is ahead at one and the same step
        (at(13, own=10), at(10), False),
        # optimizers that do not count
        (at(10, own=NOT_HERE), at(12, own=NOT_HERE), None),
        (at(10, own=NOT_HERE), at(12, scaled(FALLING, 2), own=NOT_HERE), False),
        # what is in force
        (at(10, actions=SCALED, used=FALLING[10] / 2), at(12, actions=SCALED, used=FALLING[12] / 2), True),
        (at(10, actions=SCALED, used=FALLING[10] / 2), at(12, actions=SCALED, used=FALLING[12]), False),
        (at(10, actions=HELD, used=1e-3), at(12, actions=HELD, used=1e-3), True),
        (at(10, actions=HELD, used=1e-3), at(12), False),
    ],
)
def test_one_schedule_carried_on(one: RankLr, other: RankLr, verdict: bool | None) -> None:
    assert same_schedule(one, other) is verdict
    assert same_schedule(other, one) is verdict


def test_every_group_of_every_optimizer_has_to_agree() -> None:
    def two(step: int, second: float) -> RankLr:
        (optimizer,) = at(step).optimizers
        (other,) = at(step, scaled(FALLING, second)).optimizers
        return RankLr(0, 1000, (dataclasses.replace(optimizer, groups=(*optimizer.groups, *other.groups)), optimizer))

    assert same_schedule(two(10, 2.0), two(11, 2.0)) is True
    assert same_schedule(two(10, 2.0), two(11, 3.0)) is False
    assert same_schedule(two(10, 2.0), at(11)) is False


def test_ranks_are_joined_from_the_least_far_on() -> None:
    ranks = [at(18), at(14), at(10), at(11, scaled(FALLING, 2)), at(12, scaled(FALLING, 2))]
    steps = [[rank.optimizers[0].scheduler_step for rank in course] for course in joined([rank] for rank in ranks)]
    assert steps == [[10, 14, 18], [11, 12]]
    assert not agree(ranks)
    assert agree(ranks[:3])
    assert agree([])
    assert agree([RankLr(rank, 1000, ()) for rank in range(3)])
    assert not agree([at(10), RankLr(1, 1001, ())])
