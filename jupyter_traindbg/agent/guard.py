"""What hangs on one optimizer while something of ours is in force there, and questions about the frames of its ``step``."""

from __future__ import annotations

import functools
import sys
import types
import weakref
from typing import Any, Callable, Dict, List, Optional, Protocol

from .adjust import Window
from .safepoint import runs_above


class Owner(Protocol):
    """`jupyter_traindbg.agent.tuning.Tuning`, as far as a guard needs it. None of these raises."""

    def heal(self, key: int) -> None:
        """The step of the optimizer with that ``id`` raised: put its values back."""

    def show_scheduled(self, optimizer: Any, groups: List[Dict[str, Any]]) -> None:
        """Put what the schedule has set into the ``param_groups`` of a ``state_dict()``."""


class Guard:
    """Stands round the ``step`` and behind the ``state_dict`` of one optimizer. Keeps nothing alive."""

    def __init__(self, owner: Owner, optimizer: Any) -> None:
        self._optimizer = weakref.ref(optimizer)
        step = _guarded(owner, id(optimizer), optimizer.step)
        step._traindbg_had = vars(optimizer).get("step")
        self._step = weakref.ref(step)
        optimizer.step = types.MethodType(step, optimizer)
        register = getattr(optimizer, "register_state_dict_post_hook", None)  # torch >= 2.1
        self._handle = None if register is None else register(_scheduled_state(owner))

    def remove(self) -> None:
        if self._handle is not None:
            self._handle.remove()
        optimizer: Any = self._optimizer()
        step = self._step()
        if step is None or getattr(vars(optimizer).get("step"), "__func__", None) is not step:
            return  # somebody has wrapped it meanwhile: it stays in the middle, and only passes on
        had = getattr(step, "_traindbg_had", None)
        if had is None:
            del optimizer.step
        else:
            optimizer.step = had


def _guarded(owner: Owner, key: int, inner: Callable[..., Any]) -> Any:
    """A ``step`` that has the values put back at once where `inner` raises: a KeyboardInterrupt in a notebook, say."""

    @functools.wraps(getattr(inner, "__func__", inner))
    def traindbg_step(_: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return inner(*args, **kwargs)
        except BaseException:
            owner.heal(key)
            raise

    return keep_from_compilation(traindbg_step)


def _scheduled_state(owner: Owner) -> Callable[[Any, Dict[str, Any]], None]:
    def traindbg_state(optimizer: Any, state: Dict[str, Any]) -> None:
        owner.show_scheduled(optimizer, state["param_groups"])

    return traindbg_state


def keep_from_compilation(function: Any) -> Any:
    """The same as `dynamo.keep_out` does, for a function that is made later. Its code has been marked already."""
    function._torchdynamo_disable = True
    return function


def running(window: Window) -> bool:
    """True while the step of `window` is still on the stack of its thread."""
    frame = sys._current_frames().get(window.thread)
    return frame is not None and (id(frame) == window.frame or runs_above(window.frame, frame))


def makes_up_state(frame: types.FrameType) -> bool:
    """True for the step with learning rate 0 by which torch.distributed.checkpoint gives an optimizer a state: not to be touched."""
    caller: Optional[types.FrameType] = frame
    for _ in range(6):
        if caller is None:
            return False
        if caller.f_code.co_name == "_init_optim_state":
            return True
        caller = caller.f_back
    return False


def compiled(optimizer: Any) -> bool:
    """True where torch.compile has made code of the ``step`` of this class."""
    inside: Any = getattr(getattr(sys.modules["torch"]._C, "_dynamo", None), "eval_frame", None)
    entries = getattr(inside, "_debug_get_cache_entry_list", None)
    step = getattr(type(optimizer), "step", None)
    while entries is not None and isinstance(step, types.FunctionType):
        if entries(step.__code__):
            return True
        step = getattr(step, "__wrapped__", None)
    return False


__all__ = ["Guard", "compiled", "keep_from_compilation", "makes_up_state", "running"]
