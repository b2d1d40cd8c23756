"""A loss that does not move, while it is a number: ``loss_constant``, ``loss_at_chance``, ``loss_froze``, ``loss_flat``."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from statistics import median

from ....model import LogEvidence, LogSeries
from .. import losses, trends
from ..losses import Loss
from ..metric_names import is_accuracy
from . import Fact

__all__ = ["facts"]

_QUALITY = re.compile(r"(?:^|[/_ .])(?:auc|acc(?:uracy)?\d?|bleu|map|f1)$")
LONG, SHORT = 300, 20
"""Printed values from which on a plateau says something; and from which on the last half is judged alone."""
ZEROS = 5
"""So many printed values that are all exactly zero."""
FROZEN, FROZEN_TOO = 10, 5
"""So many printed values that are the same to the last digit; and where an accuracy is, too."""
CHANCES, LATE = 8, 3
BY_CHANCE, BY_CHANCE_LONG = 0.004, 0.01
"""So many printed values, after so many epochs, that are all within so small a part of what chance gives (of many: the last half)."""
MOST_CLASSES, FEW_CLASSES = 200_000, 20
EVALUATIONS, UNMOVED = 8, 0.002
"""So many evaluations that stand still, which may move by so small a part of themselves."""


def facts(evidence: LogEvidence) -> list[Fact]:
    rules: tuple[tuple[int, Callable[[Loss], Fact | None]], ...] = (
        (ZEROS, _constant),
        (CHANCES, _at_chance),
        (FROZEN_TOO + 1, _froze),
        (LONG, _flat),
    )
    found = [rule(loss) for loss in losses.own(evidence) for fewest, rule in rules if len(loss.points) >= fewest]
    found += [_unmoved(loss) for loss in losses.evaluations(evidence)]
    found += [_all_zero(evidence)]
    return [fact for fact in found if fact is not None][:1]


def _constant(loss: Loss) -> Fact | None:
    """The same at every step; exactly zero tells sooner."""
    values = loss.values
    if len(set(values)) > 1 or (values[0] != 0 and len(values) < FROZEN):
        return None
    if values[0] == 0 and _quality_changes(loss.evidence):
        return None
    return loss.told("loss_constant", loss.points[0])


def _quality_changes(evidence: LogEvidence) -> bool:
    """Whether the model learns by another figure, beyond its noise: then a loss of 0 is one that is not computed at these steps."""
    for series in evidence.series:
        points = trends.finite(series) if _QUALITY.search(series.name) else []
        if len(points) >= 2:
            first, last = trends.medians(points)
            if abs(last - first) > trends.noise(points):
                return True
    return False


def _at_chance(loss: Loss) -> Fact | None:
    """The loss of a guess among equal classes, all the time and after some epochs; an accuracy that says the same settles it."""
    long = len(loss.points) >= SHORT
    late = loss.points[len(loss.points) // 2 :] if long else loss.points
    usual = median(v for _, v in late)
    classes = round(math.exp(min(max(usual, 0.0), 12.0)))
    chance = math.log(classes) if classes >= 2 else 0.0
    near = BY_CHANCE_LONG if long else BY_CHANCE
    if not chance or any(abs(v - chance) > near * chance for _, v in late) or loss.epochs < LATE:
        return None
    rates = [s for s in _accuracies(loss) if s.count >= CHANCES]
    if not (any(_is_guess(s, classes) for s in rates) or (classes <= FEW_CLASSES and not rates)):
        return None
    more: dict[str, float | str] = {
        "chance": trends.plain(chance),
        "classes": str(classes),
        "at_chance_count": len(late),
    }
    return loss.told("loss_at_chance", late[0], more)


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
    """From the very first steps on, for hundreds of values. A plateau in the middle of a long training is no failure."""
    points = loss.points
    step = loss.step_at(points[0][0])
    if step is None or step > len(points) / 20:
        return None
    first, last = trends.medians(points)
    if first <= 0 or abs(last - first) > 0.5 * trends.noise(points) or last < 0.97 * first:
        return None
    return loss.told("loss_flat", points[0])


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
    if len(printed) < 2 or not nothing or not losses.reinforced(evidence):
        return None
    return Loss(evidence, printed[0]).told("loss_constant", printed[0].points[0])
