"""The loss of a step, from what its backward passes were given.

A training that accumulates divides each micro-batch's loss by their number, so that the gradients add up to that of the mean. The
division is seen in the graph of what reaches ``backward`` (``loss / 4``: a DivBackward0 that holds the 4); the Trainer of transformers
divides by the tokens of all micro-batches instead. Both are undone: the loss of the step is the mean of the micro-batches' own losses,
as it is printed.
"""

from __future__ import annotations

import sys
from collections import deque
from types import FrameType
from typing import Any, Deque, List, NamedTuple, Optional, Sequence, Tuple

from . import cuda
from .safepoint import step_frame
from .scaling import Divisors, Scaling, roots_of
from .steppers import Stepper

MOST_BACKWARDS = 1024
"""Losses remembered for one record; a program that never steps an optimizer must not fill our memory."""
WHOLE, GIVEN, EVALUATED = "whole", "given", "evaluated"
MOST_LAST = 16
FRAMES_TO_TRAINER = 40
TRAINER = "transformers.trainer"


class StepLoss(NamedTuple):
    """``values``: the losses of which the step's is the mean, times ``factor``; ``last``: the last backward pass's.

    ``kind``: `WHOLE`, the loss of all that the step was trained on; `GIVEN`, the mean of several losses as they were given to backward
    (nothing tells whether they were divided); `EVALUATED`, the first of several evaluations within the step, as ``step(closure)``
    returns it.
    """

    values: Sequence[Optional[cuda.Scalar]]
    last: Optional[cuda.Scalar]
    factor: float
    kind: str


class Losses:
    """What was given to backward since the last step."""

    def __init__(self, scaling: Scaling) -> None:
        self._scaling = scaling
        self._tensor: Any = None
        """torch's class of plain tensors."""
        self._values: Deque[cuda.Scalar] = deque(maxlen=MOST_BACKWARDS)
        self._last: Deque[cuda.Scalar] = deque(maxlen=MOST_LAST)
        """The last ones since the last step, also those of steps that were skipped."""
        self._divisors: Optional[Divisors] = None
        """What the losses of this step were divided by, all of them: each of these, as the graph may hold several divisions in a row."""
        self._accumulated = 0.0
        """The number of micro-batches that losses were last seen to be divided by."""
        self._several = False
        """Whether the last step had several backward passes."""
        self.before_step = 0
        """Backward passes that were done when the step under way began."""
        self.backwards = 0
        """Backward passes since the last step."""

    def open(self) -> None:
        """Needs torch, completely imported."""
        self._tensor = sys.modules["torch"].Tensor

    def clear(self) -> None:
        self._values.clear()
        self._last.clear()

    def __len__(self) -> int:
        return len(self._values)

    def last(self, most: int) -> List[float]:
        """What was last given to backward since the last step, oldest first, `MOST_LAST` at most; without what a GPU has not told yet."""
        told = [v.value() if isinstance(v, cuda.LaterScalar) else v for v in list(self._last)[-most:]]
        return [loss for loss in told if loss is not None]

    # -- on the training thread --

    @property
    def evaluations(self) -> int:
        """Backward passes within the step under way, whose closure they are; of one that began before we came, those that we saw."""
        return self.backwards - self.before_step

    @property
    def may_be_divided(self) -> bool:
        """False at the first backward pass of a step, where the last step had one only."""
        return self._several or self.backwards > 0

    def look(self, tensors: Any) -> Divisors:
        """What the loss that backward is about to be given was divided by; its graph is gone afterwards. 3 us."""
        roots = roots_of(tensors)
        return self._scaling.divided(roots[0]) if len(roots) == 1 else ()

    def note(self, tensors: Any, divisors: Optional[Divisors]) -> None:
        """A backward pass that began at `tensors` is done; `divisors` is what `look` said, None where it was not asked."""
        self.backwards += 1
        if self._divisors is None:
            self._divisors = divisors
        elif divisors is not None and self._divisors != divisors:
            self._divisors = tuple(d for d in self._divisors if d in divisors)
        plain = type(tensors) is self._tensor and tensors.is_cpu and not self._scaling.held
        value = float(tensors.item()) if plain and tensors.numel() == 1 else self._value(tensors)
        if value is not None:
            self._values.append(value)
            self._last.append(value)

    def _value(self, tensors: Any) -> Optional[cuda.Scalar]:
        scaling, roots = self._scaling, roots_of(tensors)
        values = [cuda.later(scaling.unscaled(root).detach()) for root in roots if _readable_scalar(root)]
        if len(values) == 1 == len(roots):
            return values[0]
        if values and len(values) == len(roots) and all(isinstance(v, float) for v in values):
            return sum(v for v in values if isinstance(v, float))  # the gradient of several roots is that of their sum
        return None

    def skip(self) -> None:
        """What was given to backward so far is no matter of the next step."""
        self._values.clear()
        self.backwards, self._divisors, self.before_step = 0, None, 0

    def take_one(self) -> Optional[float]:
        """The loss of the step that ends, where it had one backward pass, without accumulation; None where it is for `take` to tell."""
        values = self._values
        if self.backwards != 1 or self._accumulated or len(values) != 1 or values[0].__class__ is not float:
            return None
        self._several, self._divisors, self.backwards, self.before_step = False, None, 0, 0
        self._last.clear()
        return values.pop()  # type: ignore[return-value]

    def take(self, stepper: Stepper) -> Tuple[StepLoss, int]:
        """The loss of the step that ends, and its backward passes; both begin anew. In a hook of that step."""
        values, backwards, divisors = list(self._values), self.backwards, self._divisors or ()
        inside = self.evaluations
        self._several = backwards > 1
        self._last.clear()
        self.skip()
        if inside > 1:
            first = max(0, len(values) - inside)
            return StepLoss(values[first : first + 1], values[-1] if values else None, 1.0, EVALUATED), backwards
        last = values[-1] if values and backwards > 1 else None
        if backwards > 1 and backwards in divisors:
            self._accumulated = float(backwards)
        # Also where a pass over the data ends with fewer of them.
        if self._accumulated and self._accumulated in divisors:
            return StepLoss(values, last, self._accumulated, WHOLE), backwards
        if backwards > 1 and _trainer_sums(stepper):
            return StepLoss(values, last, float(backwards), WHOLE), backwards
        return StepLoss(values, last, 1.0, GIVEN if backwards > 1 else WHOLE), backwards


def _trainer_sums(stepper: Stepper) -> bool:
    """Whether the step is taken by a trainer that divides by what all micro-batches have together. Looked for once an optimizer."""
    if stepper.trainer_sums is None:
        caller: Optional[FrameType] = step_frame()
        for _ in range(FRAMES_TO_TRAINER):
            if caller is None or caller.f_globals.get("__name__") == TRAINER:
                break
            caller = caller.f_back
        stepper.trainer_sums = caller is not None and caller.f_globals.get("__name__") == TRAINER
    return stepper.trainer_sums


def _readable_scalar(root: Any) -> bool:
    """True for one element of a plain tensor; not for a DTensor, which is only read together with other ranks."""
    tensor = sys.modules["torch"].Tensor
    plain = getattr(type(root), "__torch_dispatch__", None) is tensor.__torch_dispatch__
    return isinstance(root, tensor) and plain and root.numel() == 1


__all__ = ["EVALUATED", "GIVEN", "MOST_BACKWARDS", "WHOLE", "Losses", "StepLoss"]
