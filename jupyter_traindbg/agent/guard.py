"""What hangs on one optimizer while something of ours is in force there, and questions about the frames of its ``step``."""

from __future__ import annotations

import functools
import sys
import types
import weakref
from typing import Any, Callable, Dict, List, Optional, Protocol

from .adjust import Held, Window
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
        optimizer.step = step = _guarded(owner, optimizer)
        self._step = weakref.ref(step)
        register = getattr(optimizer, "register_state_dict_post_hook", None)  # torch >= 2.1
        self._handle = None if register is None else register(_scheduled_state(owner))

    def stands_at(self, held: Held) -> bool:
        """Whether it is that optimizer's, and not one's that is gone and had the same ``id``."""
        return self._optimizer() is not None and self._optimizer() is held.optimizer()

    def remove(self) -> None:
        if self._handle is not None:
            self._handle.remove()
        optimizer: Any = self._optimizer()
        step = self._step()
        if optimizer is None or step is None or vars(optimizer).get("step") is not step:
            return  # somebody has wrapped it meanwhile: it stays in the middle, and only passes on
        if step._traindbg_had is None:
            del optimizer.step
        else:
            optimizer.step = step._traindbg_had


def _guarded(owner: Owner, optimizer: Any) -> Any:
    """A ``step`` that has the values put back at once where its own raises: a KeyboardInterrupt in a notebook, say.

    It holds its optimizer weakly, as the wrapper of torch's schedulers does: in an attribute of that one a bound method would be a cycle,
    and a model that a cell has replaced would stay in memory until the garbage collector comes by. Who wraps it finds what a method has.
    """
    key, reference = id(optimizer), weakref.ref(optimizer)
    had = vars(optimizer).get("step")
    inner = type(optimizer).step if had is None else had

    def traindbg_call(_: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return inner(reference(), *args, **kwargs) if had is None else inner(*args, **kwargs)
        except BaseException:
            owner.heal(key)
            raise

    @functools.wraps(getattr(inner, "__func__", inner))
    def traindbg_step(*args: Any, **kwargs: Any) -> Any:
        return traindbg_call(None, *args, **kwargs)

    traindbg_step._traindbg_had = had  # type: ignore[attr-defined]
    traindbg_step.__func__ = keep_from_compilation(traindbg_call)  # type: ignore[attr-defined]
    traindbg_step.__self__ = weakref.proxy(optimizer)  # type: ignore[attr-defined]
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
