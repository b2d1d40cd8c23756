"""A loss that does not move, while it is a number: ``loss_constant``, ``loss_at_chance``, ``loss_froze``, ``loss_flat``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from statistics import median

from ....model import LogEvidence, LogSeries
from .. import losses, trends
from ..losses import Loss
from ..metric_names import is_accuracy, is_score
from . import Fact

__all__ = ["facts"]

LONG, EPOCHS, SHORT = 300, 12, 20
"""Printed values, and values of whole epochs, from which on a plateau says something; and from which on the last half is judged alone."""
MANY_STEPS, HARDLY = 1000, 0.01
"""After so many steps the loss has moved by more than so small a part of itself."""
FEWEST, ZEROS = 4, 5
"""So many printed values that are all as wrong as can be; and so many epochs of exactly zero."""
SATURATED = 87.3365
"""The logarithm of the smallest float32, with its sign turned: what a softmax loss gives that is as wrong as it can be."""
FROZEN, FROZEN_TOO = 10, 5
"""So many printed values that are the same to the last digit; and where an accuracy is, too."""
CHANCES, LATE = 8, 3
BY_CHANCE, BY_CHANCE_LATE = 0.004, 0.012
"""So many printed values, after so many epochs, that are all within so small a part of what chance gives; of many, or where an accuracy
says the same, the last half.
"""
MOST_CLASSES, FEW_CLASSES = 200_000, 20
EVALUATIONS, UNMOVED = 8, 0.002
"""So many evaluations that stand still, which may move by so small a part of themselves."""


def facts(evidence: LogEvidence) -> list[Fact]:
    rules: tuple[tuple[int, Callable[[Loss], Fact | None]], ...] = (
        (FEWEST, _constant),
        (CHANCES, _at_chance),
        (FROZEN_TOO + 1, _froze),
        (EPOCHS, _flat),
    )
    found = [rule(loss) for loss in losses.own(evidence) for fewest, rule in rules if len(loss.points) >= fewest]
    found += [_unmoved(loss) for loss in losses.evaluations(evidence)]
    found += [_all_zero(evidence)]
    return [fact for fact in found if fact is not None][:1]


def _constant(loss: Loss) -> Fact | None:
    """The same at every step. Exactly zero may be a small loss that was rounded: steps have to be more, epochs need not."""
    values = loss.values
    if len(set(values)) > 1:
        return None
    if abs(values[0] - SATURATED) < 1e-3:
        fewest = FEWEST
    elif values[0] != 0:
        fewest = FROZEN
    else:
        fewest = ZEROS if loss.epochs >= ZEROS else SHORT
    if len(values) < fewest or (values[0] == 0 and _quality_changes(loss.evidence)):
        return None
    return loss.told("loss_constant", loss.points[0])


def _quality_changes(evidence: LogEvidence) -> bool:
    """Whether the model learns by another figure, beyond its noise: then a loss of 0 is one that is not computed at these steps."""
    for series in evidence.series:
        points = trends.finite(series) if is_score(series.name) else []
        if len(points) >= 2:
            first, last = trends.medians(points)
            if abs(last - first) > trends.noise(points):
                return True
    return False


def _at_chance(loss: Loss) -> Fact | None:
    """The loss of a guess among equal classes, all the time and after some epochs; an accuracy that says the same settles it."""
    late = loss.points[len(loss.points) // 2 :]
    usual = median(v for _, v in late)
    classes = round(math.exp(min(max(usual, 0.0), 12.0)))
    chance = math.log(classes) if classes >= 2 else 0.0
    rates = [s for s in _accuracies(loss) if s.count >= CHANCES]
    agree = any(_is_guess(s, classes) for s in rates)
    if not chance or loss.epochs < LATE or (rates and not agree) or (not rates and classes > FEW_CLASSES):
        return None
    judged, near = (late, BY_CHANCE_LATE) if agree or len(loss.points) >= SHORT else (loss.points, BY_CHANCE)
    if any(abs(v - chance) > near * chance for _, v in judged):
        return None
    more: dict[str, float | str] = {
        "chance": trends.plain(chance),
        "classes": str(classes),
        "at_chance_count": len(judged),
    }
    return loss.told("loss_at_chance", judged[0], more)


def _accuracies(loss: Loss) -> Sequence[LogSeries]:
    return [s for s in loss.evidence.series if s.source == loss.series.source and is_accuracy(s.name)]


def _is_guess(accuracy: LogSeries, classes: int) -> bool:
    """In parts of 1 or in percent."""
    share = median(v for _, v in accuracy.points) * classes
    return 0.7 < share < 1.4 or 0.7 < share / 100 < 1.4


def _froze(loss: Loss) -> Fact | None:
    """At the end for at least a third of the log; 0 may be a loss that is not computed, or one that has been learnt."""
    points = loss.points
    still = points[-1][1]
    same = len(list(itertools.takewhile(lambda p: p[1] == still, reversed(points))))
    since = points[-same][0]
    if still == 0 or not len(points) / 3 <= same < len(points):
        return None
    if same < FROZEN and not (same >= FROZEN_TOO and any(_stands(s, since) for s in _accuracies(loss))):
        return None
    more: dict[str, float | str] = {"still": f"{still:.10g}", "same_count": same, "still_line": since}
    classes = round(math.exp(min(still, 20.0)))
    if 2 <= classes <= MOST_CLASSES and abs(math.log(classes) - still) < 1e-4:
        more["classes"] = str(classes)
    return loss.told("loss_froze", points[-same], more)


def _stands(accuracy: LogSeries, since: int) -> bool:
    values = [v for n, v in accuracy.points if n >= since]
    return len(values) >= FROZEN_TOO and len(set(values)) == 1


def _flat(loss: Loss) -> Fact | None:
    """From the very first steps on, for hundreds of values or a dozen epochs; or all values within a hundredth, after a thousand steps.
    A plateau in the middle of a long training is no failure.
    """
    points, values = loss.points, loss.values
    step, last_step = loss.step_at(points[0][0]), loss.step_at(points[-1][0])
    first, last = trends.medians(points)
    each_epoch = EPOCHS <= len(points) <= 2 * loss.epochs and len(points) == len(loss.series.points)
    from_start = step is not None and step <= len(points) / 20
    if first <= 0 or (len(points) < LONG and not each_epoch and not _early(step, last_step)):
        return None
    unmoved = _early(step, last_step) and max(values) - min(values) < HARDLY * first
    if not unmoved and not (
        (from_start or each_epoch) and abs(last - first) <= 0.5 * trends.noise(points) and last >= 0.97 * first
    ):
        return None
    return loss.told("loss_flat", points[0])


def _early(step: float | None, last_step: float | None) -> bool:
    """Whether the log shows nearly the whole training so far, and a thousand steps of it."""
    return step is not None and last_step is not None and last_step >= MANY_STEPS and step <= 0.05 * last_step


def _unmoved(loss: Loss) -> Fact | None:
    """Evaluations that give the same again and again since the very first one: whole epochs change nothing."""
    points, values = loss.points, loss.values
    if len(points) < EVALUATIONS or max(values) - min(values) > UNMOVED * abs(values[0]):
        return None
    step = loss.step_at(points[1][0])
    return loss.told("loss_flat", points[0]) if step is not None and step <= 1 else None


def _all_zero(evidence: LogEvidence) -> Fact | None:
    """The losses of actor and critic alike, at every step: nothing is computed. One alone may be zero for good reasons."""
    printed = [s for s in evidence.series if s.count and s.name.endswith("loss")]
    nothing = all(s.count >= ZEROS and all(v == 0 for _, v in s.points) for s in printed)
    if len(printed) < 2 or not nothing or max(s.count for s in printed) < FROZEN or not losses.reinforced(evidence):
        return None
    loss = Loss(evidence, printed[0])
    return loss.told("loss_constant", loss.points[0]) if loss.points else None
