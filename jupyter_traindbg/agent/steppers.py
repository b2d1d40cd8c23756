"""Optimizers that were seen stepping: which calls of their ``step`` are nested, and their own step counts."""

from __future__ import annotations

import sys
import types
import weakref
from collections import deque
from typing import Any, Callable, Deque, List, Optional, Tuple

from . import cuda

NORM_COSTS = 3
"""So many samples of an optimizer are remembered to tell what one costs: the least, since others that use the machine only add to it."""


class Stepper:
    """An optimizer that was seen stepping, and its own step count."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = weakref.ref(optimizer)
        self.index: Optional[int] = None
        self.trainer_sums: Optional[bool] = None
        """Whether what its losses were divided by is the trainer's doing; None before anybody looked."""
        self._frames: List[int] = []
        """The running calls of its ``step``, outermost first: a subclass's step calls its parent's, and both have hooks."""
        self._looked = False
        self._counted: Optional[Callable[[], Any]] = None
        """A parameter whose state counts the steps."""
        self._base: Optional[cuda.Scalar] = None
        self._further = 0
        self._norm_costs: Deque[float] = deque(maxlen=NORM_COSTS)

    def norm_cost(self, took: float) -> float:
        """What a norm of its gradients costs, in seconds, after one that took so long. One optimizer's says nothing of another's."""
        self._norm_costs.append(took)
        return min(self._norm_costs)

    def enter(self, frame: types.FrameType) -> bool:
        """True where another step of the same optimizer calls this one."""
        while self._frames and not runs_above(self._frames[-1], frame):
            self._frames.pop()  # it raised: its post hook never came
        self._frames.append(id(frame))
        return len(self._frames) > 1

    def leave(self, frame: types.FrameType) -> bool:
        """True where the step that ends here was called by another step of the same optimizer."""
        if id(frame) in self._frames:
            del self._frames[self._frames.index(id(frame)) :]
        return bool(self._frames)

    def step(self, optimizer: Any) -> Tuple[Optional[cuda.Scalar], int]:
        """The optimizer's own step count, as a figure and what to add to it; (None, 0) where it keeps none.

        A count in host memory is read each time (it may stand still under a GradScaler, or jump when a checkpoint is loaded). One on
        a GPU is fetched once and then counted on.
        """
        if isinstance(self._base, cuda.LaterScalar):
            self._further += 1
            return self._base, self._further
        step = self._state_step(optimizer)
        if step is None:
            return None, 0
        if isinstance(step, (int, float)):
            return int(step), 0
        if step.is_cpu:
            return int(step.item()), 0
        value = cuda.later(step.detach())
        if isinstance(value, cuda.LaterScalar):
            self._base = value
        return value if value is None or isinstance(value, cuda.LaterScalar) else int(value), 0

    def _state_step(self, optimizer: Any) -> Any:
        if not self._looked:  # once: SGD keeps no count, and must not be searched at every step
            self._looked = True
            state, parameters = optimizer.state, (p for g in optimizer.param_groups for p in g["params"])
            counted = next((p for p in parameters if p in state and "step" in state[p]), None)
            self._counted = None if counted is None else weakref.ref(counted)
        parameter = self._counted() if self._counted is not None else None
        return None if parameter is None else (optimizer.state.get(parameter) or {}).get("step")


def step_frame() -> types.FrameType:
    """The frame, of torch, that called our hook."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        frame = frame.f_back
    return frame


def runs_above(ident: int, frame: types.FrameType) -> bool:
    """True where the frame with that ``id`` has, through others or directly, called `frame`."""
    caller = frame.f_back
    while caller is not None and id(caller) != ident:
        caller = caller.f_back
    return caller is not None


__all__ = ["Stepper", "runs_above", "step_frame"]
