"""Optimizers that were seen stepping, and their own step counts."""

from __future__ import annotations

import weakref
from collections import deque
from types import FrameType
from typing import Any, Callable, Deque, List, Mapping, Optional, Union

from . import cuda

NORM_COSTS = 3
"""So many samples of an optimizer are remembered to tell what one costs: the least, since others that use the machine only add to it."""


def is_step(frame: FrameType) -> bool:
    """Whether a frame is that of torch's wrapper round an optimizer's ``step``."""
    return frame.f_code.co_name == "wrapper" and frame.f_globals.get("__name__") == "torch.optim.optimizer"


def stepping(local: Mapping[str, Any]) -> type:
    """The class of the optimizer whose step it is, from the variables of such a frame."""
    arguments = local.get("args")
    return type(arguments[0] if arguments else local.get("self"))


class Stepper:
    """An optimizer that was seen stepping, and its own step count."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = weakref.ref(optimizer)
        self.index: Optional[int] = None
        self.trainer_sums: Optional[bool] = None
        """Whether what its losses were divided by is the trainer's doing; None before anybody looked."""
        self._looked = False
        self._counted: Callable[[], Any] = lambda: None
        """A parameter whose state counts the steps."""
        self._base: Optional[cuda.LaterScalar] = None
        self.further = 0
        """Steps since the count on a GPU was fetched."""
        self.lr: List[Optional[float]] = []
        """The learning rates of its last record. Mostly the next one's are the same list."""
        self._norm_costs: Deque[float] = deque(maxlen=NORM_COSTS)

    def norm_cost(self, took: float) -> float:
        """What a norm of its gradients costs, in seconds, after one that took so long. One optimizer's says nothing of another's."""
        self._norm_costs.append(took)
        return min(self._norm_costs)

    def step(self, optimizer: Any) -> Union[int, cuda.LaterScalar, None]:
        """The optimizer's own step count; None where it keeps none. To one that is on its way from a GPU `further` is to be added.

        A count in host memory is read each time (it may stand still under a GradScaler, or jump when a checkpoint is loaded). One on
        a GPU is fetched once and then counted on.
        """
        if self._base is not None:
            self.further += 1
            return self._base
        parameter = self._counted()
        step = None if parameter is None else (optimizer.state.get(parameter) or {}).get("step")
        if step is None:
            return None if self._looked else self._look(optimizer)
        if isinstance(step, (int, float)):
            return int(step)
        if step.is_cpu:
            return int(step.item())
        value = cuda.later(step.detach())
        if isinstance(value, cuda.LaterScalar):
            self._base = value
            return value
        return None if value is None else int(value)

    def _look(self, optimizer: Any) -> Union[int, cuda.LaterScalar, None]:
        """Once: SGD keeps no count, and must not be searched at every step."""
        self._looked = True
        state, parameters = optimizer.state, (p for g in optimizer.param_groups for p in g["params"])
        counted = next((p for p in parameters if p in state and "step" in state[p]), None)
        if counted is None:
            return None
        self._counted = weakref.ref(counted)
        return self.step(optimizer)


__all__ = ["Stepper", "is_step", "stepping"]
