"""Accuracies that say that nothing is learnt: ``accuracy_zero``, ``accuracy_of_a_guess``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ....model import LogEvidence, LogSeries
from .. import losses, trends
from ..losses import Loss
from ..metric_names import STEPS, is_accuracy
from . import Fact

__all__ = ["facts"]

NEVER, LATE_STEP = 8, 10_000
"""So many printed accuracies of exactly zero, and so late."""
GUESSES, GUESSED, LATE_EPOCH = 6, 0.01, 3
"""So many that are all within so small a part of what a guess gives, and so late."""
FEW_CLASSES = 20


def facts(evidence: LogEvidence) -> list[Fact]:
    rates = [] if losses.reinforced(evidence) else [s for s in evidence.series if s.count and is_accuracy(s.name)]
    return [*_never_right(evidence, rates), *_only_guesses(evidence, rates)][:1]


def _never_right(evidence: LogEvidence, rates: Sequence[LogSeries]) -> Iterator[Fact]:
    """Exactly 0 after thousands of steps."""
    for s in rates:
        step = trends.value_at(evidence.series, STEPS, s.source, s.points[-1][0])
        if (
            s.count >= NEVER
            and not any(v for _, v in s.points)
            and step is not None
            and LATE_STEP <= step[1] < math.inf
        ):
            yield _told("accuracy_zero", evidence, s, {"at_step": int(step[1])})


def _only_guesses(evidence: LogEvidence, rates: Sequence[LogSeries]) -> Iterator[Fact]:
    """All of them are what one class for everything gives, epoch after epoch, and one to the last digit."""
    several = [s for s in rates if s.count >= GUESSES]
    if len(several) < 2:
        return
    for classes in range(2, FEW_CLASSES + 1):
        guessed = all(abs(v * classes - 1) < GUESSED for s in several for _, v in s.points)
        still = [s for s in several if len({v for _, v in s.points}) == 1]
        if guessed and still and Loss(evidence, still[0]).epochs >= LATE_EPOCH:
            guess = trends.plain(still[0].points[-1][1])
            yield _told("accuracy_of_a_guess", evidence, still[0], {"classes": str(classes), "guess": guess})


def _told(name: str, evidence: LogEvidence, series: LogSeries, more: dict[str, float | str]) -> Fact:
    line = trends.line_at(evidence, series.source, series.points[0][0])
    return Fact(name, line, {"accuracy_name": series.name, "accuracy_count": series.count, **more}, series.rank)
