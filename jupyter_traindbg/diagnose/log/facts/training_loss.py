"""Whether the loss is a number: NaN from which step on, and what the run got over; a learning rate of zero.

``loss_is_nan``, ``loss_zero_grad_nan`` (a Trainer that prints 0.0 for NaN), ``loss_recovered``, ``loss_stays_finite``,
``learning_rate_zero``. What is not finite once and then is again was skipped by the run: ``loss_recovered`` only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from statistics import median

from ....model import LogEvidence, LogSeries
from .. import trends
from ..metric_names import RATES, STEPS, is_evaluation_loss, is_learning_rate, is_loss, is_main_loss
from . import Fact

__all__ = ["facts"]

_OF_MODEL = re.compile(r"(?:^|/)(?:logps|logits)(?:/|_|$)")
_GRADIENT = re.compile(r"(?:^|[/_ .])(?:grad(?:ient)?[_ ]?norm|gnorm)$")
_FIRST_STEPS = re.compile(
    r"(?<![\d/])[01]/\d{2,} ?\[\d+:\d\d|(?i:\bepoch[ =:]*0\b.*\b(?:iter|step|batch)\w*[ =:]*[01]\b)"
)

MOSTLY = 0.5
RECOVERED = 3
"""So many finite values of a total loss, and a part of it that is not finite does no harm; so many at its end, and neither does what was
not finite before.
"""
SHORT = 20
"""Printed learning rates of zero from which on they say something."""


def facts(evidence: LogEvidence) -> list[Fact]:
    series = [s for s in evidence.series if s.count]
    broken = [f for s in series if is_loss(s.name) and not _harmless_part(evidence, s) for f in _nan(evidence, s)]
    gradient = [f for s in series if _GRADIENT.search(s.name) for f in _gradient_nan(evidence, s)]
    recovered = [] if broken or gradient else list(_recovered(series))
    broken += [] if broken or gradient else _of_model(evidence, series)
    return [
        *_earliest(broken),
        *(gradient if not broken else ()),
        *recovered,
        *([] if broken or gradient else _finite(evidence, series)),
        *_rates(evidence, series),
    ]


def _earliest(found: list[Fact]) -> list[Fact]:
    """One is enough: a total and its parts break at the same line."""
    return sorted(found, key=lambda f: (f.line.source, f.line.number) if f.line else (0, 0))[:1]


def _lasting(series: LogSeries, share: float = 0.0) -> bool:
    """Whether it is not finite at the end, or mostly so (at least `share`) since it first was not.

    Weights that are NaN never give a finite loss again: one finite value afterwards says that the step was skipped.
    """
    if not series.nonfinite or series.first_nonfinite is None:
        return False
    since = [v for n, v in series.points if n >= series.first_nonfinite.number]
    if len(since) > RECOVERED and all(math.isfinite(v) and v != 0 for v in since[-RECOVERED:]):
        return False  # it had not been computed yet (a replay buffer that fills), or its steps were skipped; 0 may stand for NaN
    bad = sum(not math.isfinite(v) for v in since) / max(1, len(since))
    return bad >= max(share, MOSTLY) or (bad >= share and bool(since) and not math.isfinite(since[-1]))


def _harmless_part(evidence: LogEvidence, series: LogSeries) -> bool:
    """One part of a loss whose total stays finite: a mean over nothing, of a branch that is not in use."""
    return not is_main_loss(series.name) and any(
        s.source == series.source
        and s.rank == series.rank
        and is_main_loss(s.name)
        and not s.nonfinite
        and s.count >= RECOVERED
        for s in evidence.series
    )


def _nan(evidence: LogEvidence, series: LogSeries) -> Iterator[Fact]:
    if not _lasting(series) or series.first_nonfinite is None:
        return
    first = series.first_nonfinite
    good = [p for p in trends.finite(series) if p[0] < first.number]
    bad = next((v for n, v in series.points if not math.isfinite(v)), math.nan)
    values: dict[str, float | str] = {
        "name": series.name,
        "value": "nan" if math.isnan(bad) else "inf",
        "first_line": first.number,
        "bad_count": series.nonfinite,
        "count": series.count,
        "from_start": 0 if good else 1,
        "known_start": int(_shows_its_start(evidence, series.source)),
    }
    if good:
        recent = median([v for _, v in good[-3:]])
        lowest = min(v for _, v in good)
        high = min(recent, good[-1][1])  # where the last one is the lowest, nothing rose
        rise = high / lowest if lowest > 0 else 1.0
        values |= {"last_finite": good[-1][1], "lowest": lowest, "rise": rise if len(good) >= 4 else 1.0}
    rate = trends.value_at(evidence.series, RATES, series.source, first.number)
    if rate is not None:
        values["lr"] = trends.plain(rate[1])
    step = trends.value_at(evidence.series, STEPS, series.source, first.number)
    if step is not None and step[1].is_integer():
        values["first_step"] = int(step[1])
    yield Fact("loss_is_nan", first, values, series.rank)


def _shows_its_start(evidence: LogEvidence, source: int) -> bool:
    """Whether the log shows the first steps: a counter at 0 or 1, or a bar at 0. An excerpt from the middle says nothing of the start."""
    for s in evidence.series:
        if s.source == source and s.name in STEPS and s.points:
            return s.points[0][1] <= 1
    lines = [x.text for x in evidence.lines if x.source == source]
    return any(_FIRST_STEPS.search(text) for text in lines)


def _gradient_nan(evidence: LogEvidence, series: LogSeries) -> Iterator[Fact]:
    """A gradient norm that stays NaN; once at a start with a loss scale is its normal search, unless the model evaluates to NaN then."""
    if not _lasting(series, MOSTLY) or series.first_nonfinite is None:
        return
    if series.nonfinite < 2 and not _evaluates_to_nan(evidence, series):
        return
    first = series.first_nonfinite
    values: dict[str, float | str] = {
        "name": series.name,
        "value": "nan",
        "first_line": first.number,
        "bad_count": series.nonfinite,
        "count": series.count,
        "from_start": 0 if any(n < first.number for n, _ in trends.finite(series)) else 1,
        "known_start": int(_shows_its_start(evidence, series.source)),
    }
    losses = [s for s in evidence.series if s.source == series.source and is_main_loss(s.name)]
    hidden = any(v == 0.0 for s in losses for n, v in s.points if n >= first.number)
    yield Fact("loss_zero_grad_nan" if hidden else "loss_is_nan", first, values, series.rank)


def _of_model(evidence: LogEvidence, series: list[LogSeries]) -> list[Fact]:
    """What the model itself says is never a number, as in DPO whose loss is printed as 0 then."""
    found = [s for s in series if _OF_MODEL.search(s.name) and s.count > 1 and s.nonfinite == s.count]
    return [fact for s in found for fact in _nan(evidence, s)] if len(found) > 1 else []


def _evaluates_to_nan(evidence: LogEvidence, series: LogSeries) -> bool:
    of_evaluation = [
        s for s in evidence.series if s.source == series.source and is_evaluation_loss(s.name) and s.points
    ]
    return any(math.isnan(s.points[-1][1]) for s in of_evaluation)


def _recovered(series: list[LogSeries]) -> Iterator[Fact]:
    for s in series:
        if s.nonfinite and (is_loss(s.name) or _GRADIENT.search(s.name)) and s.first_nonfinite is not None:
            yield Fact("loss_recovered", s.first_nonfinite, {"name": s.name, "bad_count": s.nonfinite})
            return


def _finite(evidence: LogEvidence, series: list[LogSeries]) -> Iterator[Fact]:
    """The training's own loss was printed, and was never anything but a number."""
    for s in series:
        if is_main_loss(s.name) and not s.nonfinite:
            yield Fact("loss_stays_finite", trends.line_at(evidence, s.source, s.points[-1][0]), {}, s.rank)
            return


def _rates(evidence: LogEvidence, series: list[LogSeries]) -> Iterator[Fact]:
    for s in series:
        if is_learning_rate(s.name) and s.count >= SHORT and all(v == 0 for _, v in s.points):
            line = trends.line_at(evidence, s.source, s.points[0][0])
            yield Fact("learning_rate_zero", line, {"lr_name": s.name, "lr_count": s.count}, s.rank)
            return
