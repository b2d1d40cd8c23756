"""What a `Job` offers for turning the knobs of a running training: learning rate, weight decay, clipping."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from .model import Changed
from .questions.base import DEADLINE_S

__all__ = ["Tunable"]

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
