"""What a step number means, in words, and when one rank is behind another: the one place for both.

The optimizer's own count is the step's number where there is one: it is the same on all ranks and in the program's checkpoints. "n since
the attach" stands beside it: every agent counts from when it came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .language import pgettext, text
from .model import NotAvailable, RankChange, RankGrads, StepNumber

__all__ = ["behind", "from_step", "read_after", "same_step", "step_title", "step_words"]

JUST_PASSED = 1
"""Two ranks in lockstep may be so many steps apart at the same moment: one has ended a step that the other is about to end."""


def step_words(*numbers: StepNumber) -> str:
    """``step 8,123 (12 since the attach)``; ``step 12 since the attach`` where the optimizer keeps no count; of several, their range."""
    owns, since = _owns(numbers), _since(numbers)
    if owns is None:
        return _alone(*since) if since else text("a step that is not known")
    if not since:
        return _range(*owns)
    return text("{steps} ({since} since the attach)", steps=_range(*owns), since=_between(*since))


def step_title(*numbers: StepNumber) -> str:
    """The same as a title has it: ``step 8,123 · 12 since the attach``."""
    owns, since = _owns(numbers), _since(numbers)
    if owns is None or not since:
        return step_words(*numbers)
    return text("{steps} · {since} since the attach", steps=_range(*owns), since=_between(*since))


def read_after(rank: RankGrads) -> str:
    """``after step 8,123 (12 since the attach)``: when gradients were read, or the reason why not at a safe point."""
    number, passes = rank.number, rank.passes
    if passes is not None:
        return text("after backward pass {passes:,} since the last step, before the next one", passes=passes)
    if not rank.safe_point or number is None:
        return rank.at
    return text("after {step_words}", step_words=step_words(number))


def from_step(ranks: Sequence[RankChange]) -> str:
    """``from step 8,124 (13 since the attach) on``: the first step under a change that ranks made at one and the same step."""
    numbers = [rank.number for rank in ranks if not isinstance(rank.after_step, NotAvailable)]
    since = _since(numbers)
    if since is None:
        return text("from the next step on")
    if _owns(numbers) is None and since[0] != since[1]:
        return text(
            "from one and the same step on ({since}, as each rank counts since its own attach)", since=_between(*since)
        )
    return text("from {step_words} on", step_words=step_words(*numbers))


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


def _between(first: int, last: int) -> str:
    return f"{first:,}" if first == last else pgettext("step numbers", "{first:,} to {last:,}", first=first, last=last)


def _range(first: int, last: int) -> str:
    if first == last:
        return text("step {n:,}", n=first)
    return text("steps {between}", between=_between(first, last))


def _alone(first: int, last: int) -> str:
    return text("{steps} since the attach", steps=_range(first, last))
