"""What a `Job` offers for turning the knobs of a running training: learning rate, weight decay, clipping."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .model import Changed, LearningRates, RankLr, RankSteps, Silent, Steps
from .schedules import agree

__all__ = ["Tunable", "settled", "with_own_clips"]

DEADLINE_S = 10.0
LOOKS = 3
LATEST = 16
"""So many steps tell at what the training's own code clips: each of several optimizers has made one of them."""
Numbers = int | Sequence[int] | None


class Tunable(ABC):
    """The part of `Job` that changes settings of optimizers, on all ranks at the same step or nowhere."""

    def set_lr(
        self,
        value: float | None = None,
        *,
        scale: float | None = None,
        hold: bool | float = False,
        group: Numbers = None,
        optimizer: Numbers = None,
        force: bool = False,
        timeout: float = DEADLINE_S,
    ) -> Changed:
        """Change the learning rate from an optimizer step on: the same one on all ranks, or nowhere.

        A `value` (or ``hold=value``) pins it there, ``hold=True`` where it is, whatever the scheduler does; `scale` multiplies the
        schedule, which goes on. For all param groups, or those named. The scheduler and ``state_dict()`` never see it, and it stays, also
        when this job is closed, until `release`, `undo` or `detach`. `force` allows what is 100 times off. Costs the training thread about
        2 us a step. Raises `UsageError` or `ActionRefused`; a rank that does not answer means that nothing was changed.
        """
        from .actions import tuning

        change = tuning.hold_or_scale(
            "lr", value=value, scale=scale, hold=hold, group=group, optimizer=optimizer, force=force
        )
        return self._change(change, timeout)

    def set_weight_decay(
        self,
        value: float | None = None,
        *,
        scale: float | None = None,
        hold: bool | float = False,
        group: Numbers = None,
        optimizer: Numbers = None,
        force: bool = False,
        timeout: float = DEADLINE_S,
    ) -> Changed:
        """Like `set_lr`, for the weight decay."""
        from .actions import tuning

        change = tuning.hold_or_scale(
            "weight_decay", value=value, scale=scale, hold=hold, group=group, optimizer=optimizer, force=force
        )
        return self._change(change, timeout)

    def clip(self, max_norm: float, *, optimizer: Numbers = None, timeout: float = DEADLINE_S) -> Changed:
        """Clip the gradients at the L2 norm `max_norm` before each step, as `torch.nn.utils.clip_grad_norm_` does, until released.

        The norm is that of all gradients of one optimizer. Costs the training thread one pass over them a step. Raises as `set_lr` does.
        """
        from .actions import tuning

        return self._change(tuning.clip(max_norm, optimizer), timeout)

    def release(
        self,
        setting: str | None = None,
        *,
        group: Numbers = None,
        optimizer: Numbers = None,
        timeout: float = DEADLINE_S,
    ) -> Changed:
        """Give ``"lr"``, ``"weight_decay"``, ``"clip_norm"``, or all of them, back to the training's own code. Raises as `set_lr` does."""
        from .actions import tuning

        return self._change(tuning.release(setting, group, optimizer), timeout)

    def undo(self, setting: str | None = None, *, timeout: float = DEADLINE_S) -> Changed:
        """Take the last change back; once more, the one before. With a `setting` only where it was one of that. Raises as `set_lr` does."""
        from .actions import tuning

        return self._change(tuning.undo(setting), timeout)

    @abstractmethod
    def _change(self, wanted: Mapping[str, Any], timeout: float) -> Changed:
        """Have all ranks do what is wanted, at one step."""


Rates = tuple[Sequence[RankLr], Sequence[Silent]]


def settled(ask: Callable[[float], Rates], timeout: float) -> Rates:
    """What `ask` gives within so many seconds, asked again where ranks seem to be on other schedules: a step may have come while one of
    them was read. All within `timeout`.
    """
    ends = time.monotonic() + timeout
    ranks, silent = ask(timeout)
    for _ in range(LOOKS - 1):
        left_s = ends - time.monotonic()
        if silent or agree(ranks) or left_s < timeout / 2:
            break
        ranks, silent = ask(left_s)
    return ranks, silent


def with_own_clips(rates: LearningRates, steps: Callable[[int], Steps]) -> LearningRates:
    """`rates`, and where clipping was asked about also what the training's own code does, by its last `steps` of so many.

    Nothing is known of ranks on which clipping of ours is in force: the norm that a step was clipped at may then be ours.
    """
    free = {r.rank: r for r in rates.ranks if all(a.setting != "clip_norm" for a in r.in_force)}
    if rates.setting != "clip_norm" or rates.silent or not free:
        return rates
    norms = {norm for rank in steps(LATEST).ranks if rank.rank in free for norm in _own_clips(free[rank.rank], rank)}
    return replace(rates, own_clip_norms=tuple(sorted(norms)))


def _own_clips(rates: RankLr, steps: RankSteps) -> set[float]:
    """What the latest step of each optimizer was clipped at; those before the last change of clipping do not count."""
    since = max((e.step for e in rates.log if any(g.setting == "clip_norm" for g in e.groups)), default=0)
    latest = {step.optimizer: step.clip_norm for step in steps.steps if step.step >= since}
    return {norm for norm in latest.values() if norm is not None}
