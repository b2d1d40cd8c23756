"""What a step number means, in words, and when one rank is behind another: the one place for both.

The optimizer's own count is the step's number where there is one: it is the same on all ranks and in the program's checkpoints. "n since
the attach" stands beside it: every agent counts from when it came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .language import text
from .model import NotAvailable, RankChange, RankGrads, StepNumber

__all__ = ["behind", "from_step", "read_after", "same_step", "step_title", "step_words"]

JUST_PASSED = 1
"""Two ranks in lockstep may be so many steps apart at the same moment: one has ended a step that the other is about to end."""


def step_words(*numbers: StepNumber) -> str:
    """``step 8,123 (12 since the attach)``; ``step 12 since the attach`` where the optimizer keeps no count; of several, their range."""
    owns, since = _owns(numbers), _since(numbers)
    if owns is None:
        return _alone(*since) if since else text("a step that is not known", "未知的步")
    en, zh = _range(*owns)
    if not since:
        return text(en, zh)
    return text(f"{en} ({_between(*since)} since the attach)", f"{zh}（attach 后第 {_between(*since, sign='–')} 步）")


def step_title(*numbers: StepNumber) -> str:
    """The same as a title has it: ``step 8,123 · 12 since the attach``."""
    owns, since = _owns(numbers), _since(numbers)
    if owns is None or not since:
        return step_words(*numbers)
    en, zh = _range(*owns)
    return text(f"{en} · {_between(*since)} since the attach", f"{zh} · attach 后第 {_between(*since, sign='–')} 步")


def read_after(rank: RankGrads) -> str:
    """``after step 8,123 (12 since the attach)``: when gradients were read, or the reason why not at a safe point."""
    number, passes = rank.number, rank.passes
    if passes is not None:
        return text(
            f"after backward pass {passes:,} since the last step, before the next one",
            f"上一步之后第 {passes:,} 次反向传播结束时（下一步尚未到来）",
        )
    if not rank.safe_point or number is None:
        return rank.at
    return text(f"after {step_words(number)}", f"在{step_words(number)}之后")


def from_step(ranks: Sequence[RankChange]) -> str:
    """``from step 8,124 (13 since the attach) on``: the first step under a change that ranks made at one and the same step."""
    numbers = [rank.number for rank in ranks if not isinstance(rank.after_step, NotAvailable)]
    since = _since(numbers)
    if since is None:
        return text("from the next step on", "从下一步起")
    if _owns(numbers) is None and since[0] != since[1]:
        en, zh = _between(*since), _between(*since, sign="–")
        return text(
            f"from one and the same step on ({en}, as each rank counts since its own attach)",
            f"从同一步起（各 rank 自其 attach 起计为第 {zh} 步）",
        )
    return text(f"from {step_words(*numbers)} on", f"从{step_words(*numbers)}起")


def same_step(numbers: Sequence[StepNumber | None]) -> bool | None:
    """Whether ranks are at one step by their optimizers' own counts; None where some keep none."""
    owns = [None if number is None else number.own for number in numbers]
    return None if None in owns else len(set(owns)) <= 1


def behind(
    owns: Mapping[int, int | None], told_s: Sequence[float | None], usual_step_s: float | None
) -> dict[int, int]:
    """By rank, how many steps it is behind the furthest, by the optimizers' own counts; nothing where one keeps none.

    `told_s` is when each rank told of its step: what passes between two answers, at `usual_step_s` a step, makes no rank late.
    """
    known = {rank: own for rank, own in owns.items() if own is not None}
    moments = [at_s for at_s in told_s if at_s is not None]
    if len(known) < len(owns) or len(moments) < len(told_s) or not known or not usual_step_s:
        return {}
    explained = JUST_PASSED + (max(moments) - min(moments)) / usual_step_s
    furthest = max(known.values())
    return {rank: furthest - own for rank, own in known.items() if furthest - own > explained}


def _owns(numbers: Sequence[StepNumber]) -> tuple[int, int] | None:
    known = [number.own for number in numbers if number.own is not None]
    return (min(known), max(known)) if known and len(known) == len(numbers) else None


def _since(numbers: Sequence[StepNumber]) -> tuple[int, int] | None:
    known = [number.since_attach for number in numbers if number.since_attach is not None]
    return (min(known), max(known)) if known else None


def _between(first: int, last: int, sign: str = " to ") -> str:
    return f"{first:,}" if first == last else f"{first:,}{sign}{last:,}"


def _range(first: int, last: int) -> tuple[str, str]:
    return f"step{'s' * (first != last)} {_between(first, last)}", f"第 {_between(first, last, '–')} 步"


def _alone(first: int, last: int) -> str:
    en, zh = _range(first, last)
    return text(f"{en} since the attach", f"attach 后{zh}")
