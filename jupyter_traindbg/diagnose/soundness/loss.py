"""The loss: not a number, or out of all proportion to what it was."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ...language import text
from ...model import Finding, NotAvailable, Soundness, Step, rank_subjects
from ..hang.case import Case, Hit, View
from ..hang.words import alike
from .seen import at_step, figure, seen, unseen

__all__ = ["CODES", "EXPLAINS", "TOPIC", "VERB", "rule", "words"]

TOPIC = ("loss", "loss")
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
            return text(
                f"{figure(given)} was given to backward(), and no step has followed",
                f"backward() 得到 {figure(given)}，其后没有优化器步",
            )
        return NotAvailable(_not_given()) if any(s.steps for s in ranks) else unseen(case)
    _, step = last[0]
    return text(f"finite: {figure(step.loss)} at {at_step(step)}", f"有限：{at_step(step)}为 {figure(step.loss)}")


def _not_given() -> str:
    return text("no loss was seen in backward()", "backward() 中没有看到 loss")


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
        title = text(f"The loss was {value} at {at}, and is finite again", f"{at}的 loss 为 {value}，之后恢复有限")
    elif first.before is None:
        title = text(f"The loss is {value}, at every step seen", f"loss 为 {value}，所见每一步皆如此")
    else:
        title = text(f"The loss is {value} since {at}", f"自{at}起 loss 为 {value}")
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
        text(f"The loss given to backward() is {value}", f"传入 backward() 的 loss 为 {value}"),
        rank_subjects(ranks),
        evidence=[
            text(
                f"rank {view.rank}: the last {len(sound.losses_of_no_step)} losses; {sound.backwards} backward passes in "
                f"{sound.window_s:.1f} s, and no step of an optimizer of torch's",
                f"rank {view.rank}：最近 {len(sound.losses_of_no_step)} 个 loss；{sound.window_s:.1f} 秒内 {sound.backwards} 次反向传播，"
                f"没有 torch 优化器的更新",
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
        f"rank {rank}: {bad.count} of the last {len(steps)} losses are not finite",
        f"rank {rank}：最近 {len(steps)} 个 loss 中有 {bad.count} 个非有限",
    )
    if bad.before is None:
        return told
    before = text(
        f"; {figure(bad.before.loss)} at {at_step(bad.before)}", f"；{at_step(bad.before)}为 {figure(bad.before.loss)}"
    )
    norms = [s.grad_norm for s in steps if s.step <= bad.before.step and s.grad_norm is not None]
    if not norms:
        return told + before
    return told + before + text(f", gradient norm there {figure(norms[-1])}", f"，当时梯度范数 {figure(norms[-1])}")


def _cause(*, over: bool) -> str:
    if over:
        return text(
            "One batch, or one overflow: a step with a loss that is not finite damages the weights unless it is skipped.",
            "个别 batch 或一次溢出所致：若不跳过该步，非有限的 loss 会损坏权重。",
        )
    return text(
        "Weights or activations have overflowed or hold NaN. No later step mends that: such gradients write NaN into the weights.",
        "权重或激活值已溢出或含 NaN。之后的训练步无法自行恢复：使用这样的梯度更新会把 NaN 写入权重。",
    )


def _next_steps(*, over: bool) -> list[str]:
    look = text(
        "Run `%grads --first-nan`: it names the first module whose output is not finite.",
        "运行 `%grads --first-nan`：它会指出第一个输出非有限的模块。",
    )
    if over:
        return [look]
    return [
        look,
        text(
            "Go back to the last checkpoint before that step: every later one holds the damage.",
            "回到该步之前的最后一个检查点：之后的检查点都已损坏。",
        ),
        text(
            "Go on from there with a lower learning rate (`%lr --scale 0.1`), a longer warm-up, or clipped gradients.",
            "从那里以更低的学习率（`%lr --scale 0.1`）、更长的 warm-up 或梯度裁剪继续训练。",
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
            f"The loss diverges: {figure(worst.now)}, {times:.3g} times what it was up to {at_step(worst.up_to)}",
            f"loss 发散：{figure(worst.now)}，是截至{at_step(worst.up_to)}时的 {times:.3g} 倍",
        ),
        rank_subjects(ranks),
        evidence=[
            text(
                f"rank {view.rank}: at most {figure(leap.before)} up to {at_step(leap.up_to)}, at least {figure(leap.after)} from "
                f"{at_step(leap.since)} on (three quarters of them)",
                f"rank {view.rank}：截至{at_step(leap.up_to)}不超过 {figure(leap.before)}，自{at_step(leap.since)}起不低于 "
                f"{figure(leap.after)}（四分之三的值）",
            )
            for view, leap in leapt[:8]
        ],
        cause=text(
            "The steps are too large for what the model has become: the learning rate is too high, or a few batches threw it off.",
            "对当前的模型而言步长过大：学习率过高，或个别 batch 使其偏离。",
        ),
        next_steps=[
            text(
                "Lower the learning rate while it runs, `%lr --scale 0.1`, and see whether the loss comes down.",
                "在运行中降低学习率 `%lr --scale 0.1`，观察 loss 是否回落。",
            ),
            text(
                "Where it does not: go back to a checkpoint before that step, with clipped gradients.",
                "若不回落：回到该步之前的检查点，并裁剪梯度后继续。",
            ),
        ],
        confidence="medium",
    )
    return Hit(finding, ranks)
