"""What a scheduler will set next, by stepping a twin of it on a stand-in optimizer. The live scheduler is only read.

The twin gets copies of numbers and of containers of numbers, and shares functions; anything else that hangs on the scheduler (a model
in a closure, say) is a reason not to make one. User-written functions are run only if `harmless` says so. Otherwise the answer is the
reason, in words.
"""

from __future__ import annotations

import sys
import types
import weakref
from collections import Counter
from typing import Any, Dict, List, Union

from .attributes import attribute, attributes
from .harmless import PLAIN, harmless
from .saying import Said, said

SIDE_EFFECTS = said("the schedule is a function that might have side effects; it is not run")


class _CannotTell(Exception):
    def __init__(self, why: Said) -> None:
        super().__init__(str(why))
        self.why = why


def never_stepped(scheduler: Any, optimizer: Any) -> bool:
    """True where `optimizer` goes on and its scheduler, one of torch's, has only taken the step that its constructor takes."""
    count, step = attribute(scheduler, "_step_count"), attributes(optimizer).get("step")
    only_made = getattr(step, "_wrapped_by_lr_sched", False) and not attributes(optimizer).get("_opt_called", False)
    return type(count) is int and count <= 1 and not only_made


def upcoming(scheduler: Any, optimizer: Any, count: int) -> Union[List[List[float]], Said]:
    """The next `count` learning rates of every group, or why they cannot be told."""
    try:
        twin, groups = _snapshot(scheduler, optimizer)
    except _CannotTell as e:
        return e.why
    out = []
    try:
        for _ in range(count):
            twin.step()
            out.append([float(g["lr"]) for g in groups])
    except Exception as e:  # it may well end there, or divide by zero: so will the live one
        return said("the schedule raises {error} in {steps} steps", error=type(e).__name__, steps=len(out) + 1)
    return out


def _snapshot(scheduler: Any, optimizer: Any) -> Any:
    """A twin and the param groups that it acts on; of one moment, unless the training steps at every try."""
    for _ in range(3):
        epoch = getattr(scheduler, "last_epoch", None)
        stand_in = _StandIn(optimizer)
        twin = _twin(scheduler, stand_in, {})
        if getattr(scheduler, "last_epoch", None) == epoch:
            break
    return twin, stand_in.param_groups


class _StandIn:
    """What a scheduler touches of an optimizer, and nothing of its parameters."""

    def __init__(self, optimizer: Any) -> None:
        self.param_groups = [
            {k: _number(v) for k, v in list(g.items()) if k != "params"} for g in optimizer.param_groups
        ]
        self.defaults: Dict[str, Any] = dict.fromkeys(optimizer.defaults)
        self._opt_called = True

    def step(self) -> None:
        """Never called; torch looks at it."""


setattr(_StandIn.step, "_wrapped_by_lr_sched", True)  # noqa: B010 - else torch warns that step() was replaced


def _twin(scheduler: Any, stand_in: _StandIn, made: Dict[int, Any]) -> Any:
    cls = type(scheduler)
    if cls.__name__ == "ReduceLROnPlateau":
        raise _CannotTell(said("depends on the metric it will be given"))
    if cls.__module__ not in ("torch.optim.lr_scheduler", "torch.optim.swa_utils"):
        raise _CannotTell(said("{class_name} is not one of torch's own schedulers", class_name=cls.__name__))
    twin = made[id(scheduler)] = object.__new__(cls)
    for name, value in list(vars(scheduler).items()):
        vars(twin)[name] = stand_in if name == "optimizer" else _copy(value, name, stand_in, made)
    return twin


def _copy(value: Any, name: str, stand_in: _StandIn, made: Dict[int, Any]) -> Any:
    cls = type(value)
    if id(value) in made:
        return made[id(value)]
    if cls in (list, tuple):
        return cls(_copy(v, name, stand_in, made) for v in value)
    if cls in (dict, Counter):
        return cls({k: _copy(v, name, stand_in, made) for k, v in list(value.items())})
    if cls in (types.MethodType, weakref.WeakMethod):
        return _rebound(value if cls is types.MethodType else value(), cls, made)
    if issubclass(cls, sys.modules["torch.optim.lr_scheduler"].LRScheduler):
        return _twin(value, stand_in, made)
    return _shared(value, name)


def _shared(value: Any, name: str) -> Any:
    """A number, or a function, which twin and live scheduler may share."""
    number = _number(value)
    if type(number) in PLAIN:
        return number
    if callable(value):
        if harmless(value):
            return value
        raise _CannotTell(SIDE_EFFECTS)
    kind = type(value).__name__
    raise _CannotTell(said("the scheduler holds a {class_name} in {name}", class_name=kind, name=name))


def _rebound(method: Any, cls: type, made: Dict[int, Any]) -> Any:
    """A method of one of the schedulers, bound to its twin; anybody else's method may do anything."""
    twin = made.get(id(getattr(method, "__self__", None)))
    if twin is None:
        raise _CannotTell(SIDE_EFFECTS)
    bound = types.MethodType(method.__func__, twin)
    return bound if cls is types.MethodType else weakref.WeakMethod(bound)


def _number(value: Any) -> Any:
    """A one-element tensor as a float."""
    return float(value) if hasattr(value, "detach") and value.numel() == 1 else value
