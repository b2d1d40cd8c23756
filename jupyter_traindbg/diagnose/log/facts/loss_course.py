"""Where the loss goes, while it is a number: ``loss_rising``, ``loss_jumped``, ``loss_exploding``. A run is compared with its own noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from ....model import LogEvidence
from .. import losses, trends
from ..losses import Loss
from . import Fact

__all__ = ["facts"]

SHORT = 20
"""Printed values from which on a trend with much noise says something."""
FEWEST, STAYS = 4, 4
"""Printed values from which on a jump says something; so many after it show that it stays."""
JUMP, CLIMB, FAR_JUMP = 1.5, 1.4, 100.0
"""To so many times of what was before; by steps; and so far that two values after it are enough."""
TURN = 1.25
"""How far above its best one is that climbs again."""
RISES, SLOWLY, QUIET = 10, 1.08, 0.05
"""Printed values from which on a rise says something that never was a fall, how far it has to go, and how much the values may jump."""
FAR, TIMES = 1000, 3
"""So many times its median, and so often: then it explodes again and again."""
EVALUATIONS, WORSE = 8, 3.0
"""So many evaluations, and by so many times they become worse."""


def facts(evidence: LogEvidence) -> list[Fact]:
    rules: tuple[tuple[int, Callable[[Loss], Fact | None]], ...] = (
        (SHORT, _exploding),
        (RISES, _rising),
        (FEWEST, _jumped),
    )
    own = losses.own(evidence)
    found = (rule(loss) for loss in own for fewest, rule in rules if len(loss.points) >= fewest)
    first = next((fact for fact in found if fact is not None), None)
    return [first] if first is not None else _evaluated_worse(own, losses.evaluations(evidence))


def _exploding(loss: Loss) -> Fact | None:
    """Again and again a value that is a thousand times the usual one."""
    usual = median(map(abs, loss.values))
    far = [p for p in loss.points if abs(p[1]) > FAR * usual]
    if not usual or len(far) < TIMES:
        return None
    more: dict[str, float | str] = {"usual": usual, "highest": max(v for _, v in far), "far_count": len(far)}
    return loss.told("loss_exploding", far[0], more)


def _rising(loss: Loss) -> Fact | None:
    """Above its best in the last quarter: far above it and its beginning; or little by little from the beginning on; or since it turned."""
    points, values = loss.points, loss.values
    size = max(5, len(points) // 10)
    windows = [median(values[i : i + size]) for i in range(len(points) - size + 1)]
    first, last = trends.medians(points)
    best = min(windows)
    if best <= 0 or not trends.sure(points) or last - best < 2 * trends.noise(points):
        return None
    far = len(points) >= SHORT and last > JUMP * best and last > 1.15 * first
    slowly = trends.noise(points) < QUIET * first and last > SLOWLY * best and _every_third_higher(points)
    if not far and not slowly and not _turned(points, windows.index(best), best, last):
        return None
    at = points[windows.index(best)]
    return loss.told("loss_rising", at, {"lowest": best, "lowest_line": at[0]})


def _turned(points: Sequence[trends.Point], at: int, best: float, last: float) -> bool:
    """It fell, and has climbed ever since, far beyond its noise."""
    since = points[at:]
    return (
        len(points) // 10 < at < len(points) * 3 // 4
        and len(since) >= SHORT
        and last > TURN * best
        and last - best > 4 * trends.noise(points)
        and _every_third_higher(since)
    )


def _every_third_higher(points: Sequence[trends.Point]) -> bool:
    """From the beginning on, and as much in the second half as in the first one, nearly."""
    third = len(points) // 3
    a, b, c = (median(v for _, v in part) for part in (points[:third], points[third:-third], points[-third:]))
    return a < b < c and c - b > 0.3 * (b - a)


def _jumped(loss: Loss) -> Fact | None:
    """From one printed value to the next to one and a half times of all before, and it stays there; or it climbs with each of them."""
    points, values = loss.points, loss.values
    climbs = trends.climbs(points) and values[-1] > CLIMB * values[0]
    at = _jump(values) or (1 if climbs else 0)
    if not at or values[0] <= 0 or loss.begins_again(points[at - 1][0], points[at][0]):
        return None
    more: dict[str, float | str] = {"before": values[at - 1], "after": median(values[at:]), "at_line": points[at][0]}
    return loss.told("loss_jumped", points[at], more)


def _jump(values: Sequence[float]) -> int:
    """Where it is above `JUMP` times all that was before, from then on; 0 where it is not."""
    lowest_after = list(values)
    for i in range(len(values) - 2, -1, -1):
        lowest_after[i] = min(values[i], lowest_after[i + 1])
    highest = values[0]
    for i in range(1, len(values) - 1):
        high = JUMP if len(values) - i >= STAYS else FAR_JUMP
        if i >= 2 and lowest_after[i] > high * highest > 0:
            return i
        highest = max(highest, values[i])
    return 0


def _evaluated_worse(own: Sequence[Loss], evaluated: Sequence[Loss]) -> list[Fact]:
    """Evaluations give many times what they gave at first, and the training's own loss has not fallen meanwhile: that is no overfitting."""
    for loss in evaluated:
        points, values = loss.points, loss.values
        if len(points) < EVALUATIONS or values[0] <= 0:
            continue
        last = trends.medians(points)[1]
        stands = any(_does_not_fall(o.points) for o in own if o.series.source == loss.series.source)
        if stands and last > WORSE * values[0] and last > WORSE * min(values[: len(values) // 2]):
            return [loss.told("loss_rising", points[0])]
    return []


def _does_not_fall(points: Sequence[trends.Point]) -> bool:
    """After its first quarter."""
    if len(points) < EVALUATIONS:
        return False
    first, last = trends.medians(points[len(points) // 4 :])
    return last > 0.97 * first
