"""The loss: not a number, or out of all proportion to what it was."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ...language import later, text
from ...model import Finding, NotAvailable, Soundness, Step, rank_subjects
from ..hang.case import Case, Hit, View
from ..hang.words import alike
from .seen import at_step, figure, seen, unseen

__all__ = ["CODES", "EXPLAINS", "TOPIC", "VERB", "rule", "words"]

TOPIC = later("loss")
VERB = "steps"
CODES = frozenset({"nonfinite_loss", "loss_diverging"})
EXPLAINS = {"nonfinite_loss": ("nonfinite_gradient", "scaler_skips")}

LAST = 3
"""So many last losses that are not finite are no matter of a batch any more."""
BEFORE, AFTER, GAP = 32, 16, 16
"""How many losses there have to be before a leap and after it, and how many it may take."""
TIMES, STAYS = 10.0, 5.0
"""How far a loss has to leap, and how far it has to stay up."""


@dataclass(frozen=True)
class _Bad:
    """The loss of one rank is not finite since `step`, the first record of which that is known; `before` is the one before that."""

    view: View
    steps: Sequence[Step]
    step: Step
    before: Step | None
    over: bool
    """Whether it is finite again."""
    count: int

    @property
    def lasts(self) -> bool:
        return not self.over and (self.count >= LAST or self.before is None)


def rule(case: Case) -> list[Hit]:
    """Not finite, on which ranks and since when; else how it has leapt. Ranks that train one model diverge together."""
    ranks = [(view, losses) for view, sound in seen(case) for losses in _by_optimizer(sound)]
    bad = [hit for view, losses in ranks if (hit := _nonfinite(view, losses))]
    if bad:
        return [_hit(same) for same in alike(bad, lambda b: b.over)]
    if unstepped := [(v, s) for v, s in seen(case) if _lost_without_a_step(s)]:
        return [_without_a_step(unstepped)]
    leapt = [(view, leap) for view, losses in ranks if (leap := _leapt(losses))]
    return [_diverging(leapt)] if leapt and len(leapt) >= len(ranks) / 2 else []


def words(case: Case) -> str | NotAvailable:
    """The last loss."""
    last = [(v, losses[-1]) for v, s in seen(case) for losses in _by_optimizer(s)]
    if not last:
        ranks = [s for _, s in seen(case)]
        given = next((s.losses_of_no_step[-1] for s in ranks if s.losses_of_no_step), None)
        if given is not None and math.isfinite(given):
            return text("{figure} was given to backward(), and no step has followed", figure=figure(given))
        return NotAvailable(_not_given()) if any(s.steps for s in ranks) else unseen(case)
    _, step = last[0]
    return text("finite: {figure} at {at_step}", figure=figure(step.loss), at_step=at_step(step))


def _not_given() -> str:
    return text("no loss was seen in backward()")


def _by_optimizer(sound: Soundness) -> list[list[Step]]:
    """The records that have a loss, by the optimizer that stepped."""
    with_loss = [s for s in sound.steps if s.loss is not None]
    return alike(with_loss, lambda s: s.optimizer)


# --- not a number --------------------------------------------------------------------------------------------------


def _nonfinite(view: View, losses: Sequence[Step]) -> _Bad | None:
    bad = [s for s in losses if not _finite(s)]
    if not bad:
        return None
    over = _finite(losses[-1])
    first = losses.index(bad[0]) if over else _first_of_the_last(losses)
    count = len(bad) if over else len(losses) - first
    return _Bad(view, losses, losses[first], losses[first - 1] if first else None, over, count)


def _first_of_the_last(losses: Sequence[Step]) -> int:
    """Where the losses that are not finite, up to the last one, begin."""
    return next((i for i in reversed(range(len(losses))) if _finite(losses[i])), -1) + 1


def _finite(step: Step) -> bool:
    return step.loss is not None and math.isfinite(step.loss)


def _hit(same: Sequence[_Bad]) -> Hit:
    first = min(same, key=lambda b: b.step.step)
    ranks = sorted({b.view.rank for b in same})
    value, at = figure(first.step.loss), at_step(first.step)
    if first.over:
        title = text("The loss was {value} at {at}, and is finite again", value=value, at=at)
    elif first.before is None:
        title = text("The loss is {value}, at every step seen", value=value)
    else:
        title = text("The loss is {value} since {at}", value=value, at=at)
    finding = Finding(
        "nonfinite_loss",
        "critical" if any(b.lasts for b in same) else "warning",
        title,
        rank_subjects(ranks),
        evidence=[_evidence(b) for b in same[:8]],
        cause=_cause(over=first.over),
        next_steps=_next_steps(over=first.over),
    )
    return Hit(finding, ranks)


def _lost_without_a_step(sound: Soundness) -> bool:
    """Of a program that steps no optimizer of torch's, or none any more."""
    last = sound.losses_of_no_step[-LAST:]
    return not sound.steps and len(last) == LAST and not any(math.isfinite(loss) for loss in last)


def _without_a_step(found: Sequence[tuple[View, Soundness]]) -> Hit:
    ranks = [view.rank for view, _ in found]
    value = figure(found[0][1].losses_of_no_step[-1])
    finding = Finding(
        "nonfinite_loss",
        "critical",
        text("The loss given to backward() is {value}", value=value),
        rank_subjects(ranks),
        evidence=[
            text(
                "rank {rank}: the last {count} losses; {backwards} backward passes in {window_s:.1f} s, and no "
                "step of an optimizer of torch's",
                rank=view.rank,
                count=len(sound.losses_of_no_step),
                backwards=sound.backwards,
                window_s=sound.window_s,
            )
            for view, sound in found[:8]
        ],
        cause=_cause(over=False),
        next_steps=_next_steps(over=False),
    )
    return Hit(finding, ranks)


def _evidence(bad: _Bad) -> str:
    rank, steps = bad.view.rank, bad.steps
    told = text(
        "rank {rank}: {count} of the last {count2} losses are not finite", rank=rank, count=bad.count, count2=len(steps)
    )
    if bad.before is None:
        return told
    before = text("; {figure} at {at_step}", figure=figure(bad.before.loss), at_step=at_step(bad.before))
    norms = [s.grad_norm for s in steps if s.step <= bad.before.step and s.grad_norm is not None]
    if not norms:
        return told + before
    return told + before + text(", gradient norm there {figure}", figure=figure(norms[-1]))


def _cause(*, over: bool) -> str:
    if over:
        return text(
            "One batch, or one overflow: a step with a loss that is not finite damages the weights unless it "
            "is skipped."
        )
    return text(
        "Weights or activations have overflowed or hold NaN. No later step mends that: such gradients "
        "write NaN into the weights."
    )


def _next_steps(*, over: bool) -> list[str]:
    look = text("Run `%grads --first-nan`: it names the first module whose output is not finite.")
    if over:
        return [look]
    return [
        look,
        text("Go back to the last checkpoint before that step: every later one holds the damage."),
        text(
            "Go on from there with a lower learning rate (`%lr --scale 0.1`), a longer warm-up, or clipped gradients."
        ),
    ]


# --- out of proportion ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Leap:
    """From nearly all losses up to one step to nearly all since another one, and to the last ones."""

    before: float
    up_to: Step
    after: float
    since: Step
    now: float


def _leapt(losses: Sequence[Step]) -> _Leap | None:
    """Where the loss, positive all along, has leapt within some steps and stays up. One that rises bit by bit (data in an order) has not,
    nor has one that comes back up after a dip.
    """
    values = [s.loss for s in losses if s.loss is not None]
    if len(values) < BEFORE + GAP + AFTER or min(values) <= 0:
        return None
    now = statistics.median(values[-AFTER:])
    for k in range(BEFORE, len(values) - GAP - AFTER + 1, AFTER // 2):
        before = _quantile(values[:k], 0.75)
        rest = [values[i : i + AFTER] for i in range(k + GAP, len(values) - AFTER + 1, AFTER)]
        after = _quantile(rest[0], 0.25)
        if after > TIMES * before and all(
            statistics.median(part) > STAYS * before for part in [*rest, values[-AFTER:]]
        ):
            return _Leap(before, losses[k - 1], after, losses[k + GAP], now)
    return None


def _quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[round(share * (len(values) - 1))]


def _diverging(leapt: Sequence[tuple[View, _Leap]]) -> Hit:
    ranks = sorted({view.rank for view, _ in leapt})
    _, worst = max(leapt, key=lambda one: one[1].now / one[1].before)
    times = worst.now / worst.before
    finding = Finding(
        "loss_diverging",
        "critical",
        text(
            "The loss diverges: {figure}, {times:.3g} times what it was up to {at_step}",
            figure=figure(worst.now),
            times=times,
            at_step=at_step(worst.up_to),
        ),
        rank_subjects(ranks),
        evidence=[
            text(
                "rank {rank}: at most {figure} up to {at_step}, at least {figure2} from {at_step2} on (three "
                "quarters of them)",
                rank=view.rank,
                figure=figure(leap.before),
                at_step=at_step(leap.up_to),
                figure2=figure(leap.after),
                at_step2=at_step(leap.since),
            )
            for view, leap in leapt[:8]
        ],
        cause=text(
            "The steps are too large for what the model has become: the learning rate is too high, or a few "
            "batches threw it off."
        ),
        next_steps=[
            text("Lower the learning rate while it runs, `%lr --scale 0.1`, and see whether the loss comes down."),
            text("Where it does not: go back to a checkpoint before that step, with clipped gradients."),
        ],
        confidence="medium",
    )
    return Hit(finding, ranks)
