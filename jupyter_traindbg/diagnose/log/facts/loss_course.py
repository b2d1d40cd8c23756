"""Where the loss goes, while it is a number: ``loss_rising``, ``loss_jumped``, ``loss_exploding``, ``loss_flat``, ``loss_constant``.

Only the training's own loss, and that of evaluations where it does not move at all. A run is compared with its own noise. Losses of
policies, critics and adversaries go up and down for good reasons, and are left out.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from statistics import median

from ....model import LogEvidence, LogSeries
from .. import trends
from ..metric_names import RATES, STEPS, is_accuracy, is_evaluation_loss, is_main_loss, is_reinforced
from . import Fact

__all__ = ["facts"]

_EPOCH = re.compile(r"(?i)\bepoch\W{1,4}(\d{1,6})\b(?!\.\d)")
_QUALITY = re.compile(r"(?:^|[/_ .])(?:auc|acc(?:uracy)?\d?|bleu|map|f1)$")
LONG, SHORT = 300, 20
"""Printed values from which on a plateau, and an exactly constant value, say something."""
ZEROS = 5
CHANCES, LATE = 8, 3
BY_CHANCE, BY_CHANCE_LONG = 0.004, 0.01
"""So many printed values, after so many epochs, that are all within so small a part of what chance gives (of many: the last half)."""
EVALUATIONS = 8
"""So many evaluations that all give the same say something."""
UNMOVED = 0.002
"""By so small a part of itself an evaluation's loss may move and stand still."""
FEWEST, STAYS = 4, 4
"""Printed values from which on a jump says something; so many after it show that it stays."""
JUMP, CLIMB, FAR_JUMP = 1.5, 1.4, 100.0
"""To so many times of what was before; by steps; and so far that two values after it are enough."""
TURN = 1.25
"""How far above its best one is that climbs again."""
RISES, SLOWLY, QUIET = 10, 1.08, 0.05
"""Printed values from which on a rise says something that never was a fall, how far it has to go, and how much the values may jump."""
FROZEN, FROZEN_TOO = 10, 5
"""So many printed values at the end that are the same to the last digit, after others that were not; and where an accuracy is, too."""
MOST_CLASSES, FEW_CLASSES = 200_000, 20
GUESSES, GUESSED = 6, 0.01
"""So many printed accuracies that are all within so small a part of what a guess gives."""
WORSE = 3.0
"""By so many times evaluations become worse."""
NEVER, LATE_STEP = 8, 10_000
"""So many printed accuracies of exactly zero, and so late."""
FAR, TIMES = 1000, 3
"""So many times its median, and so often: then it explodes again and again."""


def facts(evidence: LogEvidence) -> list[Fact]:
    series = [s for s in evidence.series if s.count]
    if any(is_reinforced(s.name) for s in series):
        return list(_all_zero(evidence, series))[:1]
    own = (_of(evidence, s) for s in series if is_main_loss(s.name) and not s.nonfinite)
    first = next((fact for fact in own if fact is not None), None)
    if first is not None:
        return [first]
    found = (_evaluations, _never_right, _only_guesses, _evaluated_worse)
    return [fact for look in found for fact in look(evidence, series)][:1]


def _of(evidence: LogEvidence, series: LogSeries) -> Fact | None:
    points = _of_last_run(evidence, series.source, trends.finite(series))
    kinds: tuple[tuple[int, Callable[[LogEvidence, LogSeries, list[trends.Point]], Fact | None]], ...] = (
        (ZEROS, _constant), (CHANCES, _at_chance), (FROZEN_TOO + 1, _froze), (SHORT, _exploding), (RISES, _rising), (FEWEST, _jumped), (LONG, _flat),
    )  # fmt: skip
    tried = (look(evidence, series, points) for fewest, look in kinds if len(points) >= fewest)
    return next((fact for fact in tried if fact is not None), None)


def _of_last_run(evidence: LogEvidence, source: int, points: list[trends.Point]) -> list[trends.Point]:
    """The points since the epochs were last counted from the start: a search over settings trains many models in one log."""
    begins = before = 0
    for line in evidence.lines:
        counted = _EPOCH.search(line.text) if line.source == source else None
        if counted:
            now = int(counted[1])
            if now <= 1 < before:
                begins = line.number
            before = now
    return [point for point in points if point[0] >= begins]


def _told(
    name: str, evidence: LogEvidence, series: LogSeries, points: Sequence[trends.Point], at: trends.Point
) -> Fact:
    """The fact, with what its texts need; `at` is where it shows first."""
    lowest = min(points, key=lambda p: p[1])
    first, last = trends.medians(points)
    values: dict[str, float | str] = {
        "name": series.name,
        "count": series.count,
        "first": first,
        "last": last,
        "lowest": lowest[1],
        "lowest_line": lowest[0],
        "noise": trends.noise(points),
    }
    rate = trends.value_at(evidence.series, RATES, series.source, points[-1][0])
    if rate:
        values["lr"] = trends.plain(rate[1])
    return Fact(name, trends.line_at(evidence, series.source, at[0]), values, series.rank)


def _constant(evidence: LogEvidence, series: LogSeries, points: list[trends.Point]) -> Fact | None:
    """The same at every step; exactly zero tells sooner."""
    if len(points) < FROZEN and any(v != 0 for _, v in points):
        return None
    if len({v for _, v in points}) > 1 or (points[0][1] == 0 and _quality_changes(evidence)):
        return None
    return _told("loss_constant", evidence, series, points, points[0])


def _quality_changes(evidence: LogEvidence) -> bool:
    """Whether the model learns by another figure, beyond its noise: then a loss of 0 is one that is not computed at these steps."""
    for series in evidence.series:
        points = trends.finite(series) if _QUALITY.search(series.name) else []
        if len(points) >= 2:
            first, last = trends.medians(points)
            if abs(last - first) > trends.noise(points):
                return True
    return False


def _at_chance(evidence: LogEvidence, series: LogSeries, points: list[trends.Point]) -> Fact | None:
    """The loss of a guess among equal classes, all the time and after some epochs; an accuracy that says the same settles it."""
    late = points[len(points) // 2 :] if len(points) >= SHORT else points
    usual = median(v for _, v in late)
    classes = round(math.exp(min(max(usual, 0.0), 12.0)))
    chance = math.log(classes) if classes >= 2 else 0.0
    near = BY_CHANCE if len(points) < SHORT else BY_CHANCE_LONG
    if not chance or any(abs(v - chance) > near * chance for _, v in late):
        return None
    guessed = [s for s in evidence.series if s.source == series.source and is_accuracy(s.name) and s.count >= CHANCES]
    agree = any(_is_guess([v for _, v in s.points], classes) for s in guessed)
    if not (agree or (classes <= FEW_CLASSES and not guessed)) or _epochs(evidence, series.source) < LATE:
        return None
    fact = _told("loss_froze", evidence, series, points, points[0])
    told = {"same_count": len(late), "at_line": late[0][0], "classes": str(classes)}
    return Fact(fact.name, fact.line, {**fact.values, **told}, fact.rank)


def _is_guess(accuracies: Sequence[float], classes: int) -> bool:
    """In parts of 1 or in percent."""
    share = median(accuracies) * classes
    return 0.7 < share < 1.4 or 0.7 < share / 100 < 1.4


def _epochs(evidence: LogEvidence, source: int) -> int:
    counted = (_EPOCH.search(line.text) for line in evidence.lines if line.source == source)
    return max((int(found[1]) for found in counted if found), default=0)


def _froze(evidence: LogEvidence, series: LogSeries, points: list[trends.Point]) -> Fact | None:
    """At the end for at least a third of the log; 0 may be a loss that is not computed, or one that has been learnt."""
    last = points[-1][1]
    same = len(list(itertools.takewhile(lambda p: p[1] == last, reversed(points))))
    if last == 0 or same == len(points):
        return None
    at = points[-same]
    also = same >= FROZEN_TOO and _accuracy_too(evidence, series.source, at[0])
    if same < len(points) / 3 or not (same >= FROZEN or also):
        return None
    values: dict[str, float | str] = {"last": last, "same_count": same, "at_line": at[0]}
    classes = round(math.exp(min(last, 20.0)))
    if 2 <= classes <= MOST_CLASSES and abs(math.log(classes) - last) < 1e-4:
        values["classes"] = str(classes)
    fact = _told("loss_froze", evidence, series, points, at)
    return Fact(fact.name, fact.line, {**fact.values, **values}, fact.rank)


def _accuracy_too(evidence: LogEvidence, source: int, since: int) -> bool:
    """Whether an accuracy does not move either."""
    found = [[v for n, v in s.points if n >= since] for s in evidence.series if s.source == source and is_accuracy(s.name)]
    return any(len(values) >= FROZEN_TOO and len(set(values)) == 1 for values in found)


def _exploding(evidence: LogEvidence, series: LogSeries, points: list[trends.Point]) -> Fact | None:
    """Again and again a value that is a thousand times the usual one."""
    usual = median(abs(v) for _, v in points)
    far = [p for p in points if abs(p[1]) > FAR * usual]
    if not usual or len(far) < TIMES:
        return None
    fact = _told("loss_exploding", evidence, series, points, far[0])
    highest = max(v for _, v in far)
    return Fact(fact.name, fact.line, {**fact.values, "usual": usual, "highest": highest, "far_count": len(far)}, fact.rank)


def _rising(evidence: LogEvidence, series: LogSeries, points: list[trends.Point]) -> Fact | None:
    """Far above its best, and above where it began, for the last quarter."""
    size = max(5, len(points) // 10)
    windows = [median([v for _, v in points[i : i + size]]) for i in range(len(points) - size + 1)]
    first, last = trends.medians(points)
    best = min(windows)
    if best <= 0 or not trends.sure(points) or last - best < 2 * trends.noise(points):
        return None
    far = len(points) >= SHORT and last > JUMP * best and last > 1.15 * first
    slowly = trends.noise(points) < QUIET * first and last > SLOWLY * best and _every_third_higher(points)
    if not far and not slowly and not _turned(points, windows.index(best), best, last):
        return None
    at = points[windows.index(best)]
    fact = _told("loss_rising", evidence, series, points, at)
    return Fact(fact.name, fact.line, {**fact.values, "lowest": best, "lowest_line": at[0]}, fact.rank)


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
    """From the beginning on, not only since its best."""
    third = len(points) // 3
    a, b, c = (median(v for _, v in part) for part in (points[:third], points[third : -third or None], points[-third:]))
    return a < b < c and c - b > 0.3 * (b - a)


def _jumped(evidence: LogEvidence, series: LogSeries, points: list[trends.Point]) -> Fact | None:
    """From one printed value to the next to one and a half times of all before, and it stays there; or it climbs with each of them."""
    values = [v for _, v in points]
    climbs = trends.climbs(points) and values[-1] > CLIMB * values[0]
    at = _jump(values) or (1 if climbs else 0)
    if not at or values[0] <= 0 or _begins_again(evidence, series.source, points[at - 1][0], points[at][0]):
        return None
    fact = _told("loss_jumped", evidence, series, points, points[at])
    before, after = values[at - 1], median(values[at:])
    return Fact(fact.name, fact.line, {**fact.values, "before": before, "after": after, "at_line": points[at][0]}, fact.rank)


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


def _begins_again(evidence: LogEvidence, source: int, before: int, after: int) -> bool:
    """Whether the step counter goes back between these lines: another run in the same log."""
    for series in evidence.series:
        if series.source == source and series.name in STEPS:
            early = [v for n, v in series.points if n <= before]
            late = [v for n, v in series.points if n >= after]
            if early and late and late[0] < early[-1]:
                return True
    return False


def _flat(evidence: LogEvidence, series: LogSeries, points: list[trends.Point]) -> Fact | None:
    """From the very first steps on, for hundreds of values. A plateau in the middle of a long training is no failure."""
    step = trends.value_at(evidence.series, STEPS, series.source, points[0][0])
    if step is None or step[1] > len(points) / 20:
        return None
    first, last = trends.medians(points)
    if first <= 0 or abs(last - first) > 0.5 * trends.noise(points) or last < 0.97 * first:
        return None
    return _told("loss_flat", evidence, series, points, points[0])


def _evaluations(evidence: LogEvidence, series: Sequence[LogSeries]) -> Iterator[Fact]:
    """Evaluations that give the same again and again since the very first one: whole epochs change nothing."""
    for s in series:
        points = trends.finite(s)
        if not is_evaluation_loss(s.name) or s.nonfinite or len(points) < EVALUATIONS:
            continue
        step = trends.value_at(evidence.series, STEPS, s.source, points[1][0])
        values = [v for _, v in points]
        if step is not None and step[1] <= 1 and max(values) - min(values) <= UNMOVED * abs(values[0]):
            yield _told("loss_flat", evidence, s, points, points[0])


def _never_right(evidence: LogEvidence, series: Sequence[LogSeries]) -> Iterator[Fact]:
    """An accuracy that is exactly 0 after thousands of steps."""
    for s in series:
        if not is_accuracy(s.name) or s.count < NEVER or any(v != 0 for _, v in s.points):
            continue
        step = trends.value_at(evidence.series, STEPS, s.source, s.points[-1][0])
        if step is not None and step[1] >= LATE_STEP:
            told: dict[str, float | str] = {"accuracy_name": s.name, "accuracy_count": s.count, "at_step": int(step[1])}
            yield Fact("accuracy_zero", trends.line_at(evidence, s.source, s.points[0][0]), told, s.rank)


def _all_zero(evidence: LogEvidence, series: Sequence[LogSeries]) -> Iterator[Fact]:
    """The losses of actor and critic alike, at every step: nothing is computed. One alone may be zero for good reasons."""
    losses = [s for s in series if s.name.endswith("loss")]
    if len(losses) > 1 and all(s.count >= ZEROS and all(v == 0 for _, v in s.points) for s in losses):
        yield _told("loss_constant", evidence, losses[0], losses[0].points, losses[0].points[0])


def _only_guesses(evidence: LogEvidence, series: Sequence[LogSeries]) -> Iterator[Fact]:
    """All accuracies are exactly what one class for everything gives, epoch after epoch."""
    rates = [s for s in series if is_accuracy(s.name) and s.count >= GUESSES]
    for classes in range(2, FEW_CLASSES + 1):
        at_chance = [s for s in rates if all(abs(v * classes - 1) < GUESSED for _, v in s.points)]
        still = [s for s in at_chance if len({v for _, v in s.points}) == 1]
        if len(rates) > 1 and len(at_chance) == len(rates) and still and _epochs(evidence, rates[0].source) >= LATE:
            s = still[0]
            told: dict[str, float | str] = {"accuracy_name": s.name, "accuracy_count": s.count, "classes": str(classes)}
            told["guess"] = trends.plain(s.points[-1][1])
            yield Fact("accuracy_of_a_guess", trends.line_at(evidence, s.source, s.points[0][0]), told, s.rank)
            return


def _evaluated_worse(evidence: LogEvidence, series: Sequence[LogSeries]) -> Iterator[Fact]:
    """Evaluations give many times what they gave at first, and the training's own loss has not fallen meanwhile: that is no overfitting."""
    for s in series:
        points = trends.finite(s)
        if not is_evaluation_loss(s.name) or len(points) < EVALUATIONS or points[0][1] <= 0:
            continue
        last = trends.medians(points)[1]
        own = [trends.finite(t) for t in series if is_main_loss(t.name) and t.source == s.source and t.count >= EVALUATIONS]
        stands = [part for train in own if (part := train[len(train) // 4 :]) and _does_not_fall(part)]
        if stands and last > WORSE * points[0][1] and last > WORSE * min(v for _, v in points[: len(points) // 2]):
            fact = _told("loss_rising", evidence, s, points, points[0])
            yield Fact(fact.name, fact.line, {**fact.values, "last": last}, fact.rank)
            return


def _does_not_fall(points: Sequence[trends.Point]) -> bool:
    first, last = trends.medians(points)
    return last > 0.97 * first
