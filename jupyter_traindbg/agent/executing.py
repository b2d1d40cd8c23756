"""What a Ray worker is running for somebody: methods of its actor, a task, the function of Ray Train. Not the user's helper threads."""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

from . import awaiting
from .attributes import OUR_THREADS, is_library, place, threads, users_place
from .awaiting import field
from .reachable import frames_of_others

TRAINING = "TrainingThread"
"""How Ray Train calls the thread of the user's function."""


class Call(NamedTuple):
    """One of them. ``frame`` is its outermost; ``task`` the asyncio task where it is a coroutine. Hold it for a moment only: it keeps
    the locals alive.
    """

    ident: Optional[int]
    thread: Optional[str]
    tid: Optional[int]
    method: str
    frame: FrameType
    task: Any = None

    @property
    def in_init(self) -> bool:
        return self.frame.f_code.co_name == "__init__" and self.task is None

    def where(self) -> Optional[str]:
        """Where it stands now: the user's innermost frame; None where it is over."""
        if not self.runs():
            return None
        if self.task is not None and not awaiting.is_running(field(self.task, "_coro")):
            chain = awaiting.chain(field(self.task, "_coro"))
            return next((place(f) for f in chain if not is_library(f.f_code.co_filename)), self.method)
        innermost = sys._current_frames().get(self.ident or 0)
        return users_place(innermost) or place(self.frame)

    def runs(self) -> bool:
        if self.task is not None:
            return bool(field(self.task, "_state") == "PENDING")
        return self.on_stack()

    def on_stack(self) -> bool:
        """True where a thread is inside it at this moment."""
        return any(frame is self.frame for frame in _stack(sys._current_frames().get(self.ident or 0)))


def calls() -> List[Call]:
    """All of this process, those in threads first. Costs some microseconds a frame."""
    known = threads()
    frames = frames_of_others()
    found: List[Call] = []
    for ident, innermost in frames.items():
        name, tid = known.get(ident, (None, None))
        frame = None if name in OUR_THREADS else _outermost(list(_stack(innermost)), ident, name)
        if frame is not None:
            found.append(Call(ident, name, tid, _function(frame), frame))
    for task in awaiting.tasks(frames) if "asyncio" in sys.modules else []:
        if awaiting.ray_task_id(task) is not None:
            loops = awaiting.thread_of(field(task, "_loop"), frames)
            users = [f for f in awaiting.chain_of(task, frames, loops) if not _is_rays(f)]
            name, tid = known.get(loops, (None, None)) if loops is not None else (None, None)
            if users:
                found.append(Call(loops, name, tid, _function(users[-1]), users[-1], task))
    return found


def is_worker() -> bool:
    """True in a worker process of Ray's, and not in a driver."""
    stack = _stack(sys._current_frames().get(threading.main_thread().ident or 0))
    return any(_is_main_loop(frame) for frame in stack)


def _outermost(stack: List[FrameType], ident: int, name: Optional[str]) -> Optional[FrameType]:
    """The outermost frame of what a thread runs for somebody; None where it runs nothing of that kind."""
    if ident == threading.main_thread().ident:
        loop = next((depth for depth, frame in enumerate(stack) if _is_main_loop(frame)), 0)
        stack = stack[:loop]
    elif stack[-1].f_code.co_name == "_bootstrap" and not (name or "").startswith(TRAINING):
        return None  # a thread that Python code has started
    theirs = [frame for frame in stack if not _is_rays(frame) and frame.f_globals.get("__name__") != "threading"]
    return theirs[-1] if theirs else None


def _stack(frame: Optional[FrameType]) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_main_loop(frame: FrameType) -> bool:
    return frame.f_code.co_name == "main_loop" and _is_rays(frame)


def _is_rays(frame: FrameType) -> bool:
    module = frame.f_globals.get("__name__")
    return isinstance(module, str) and (module == "ray" or module.startswith("ray."))


def _function(frame: FrameType) -> str:
    name: str = getattr(frame.f_code, "co_qualname", None) or frame.f_code.co_name
    return name


def told(call: Call) -> Dict[str, Any]:
    """``method``, ``thread``, ``tid``, ``where``, ``task_id`` (None where it is no coroutine) and ``in_init``."""
    task_id = None if call.task is None else awaiting.ray_task_id(call.task)
    return {
        "method": call.method,
        "thread": call.thread,
        "tid": call.tid,
        "where": call.where(),
        "task_id": task_id,
        "in_init": call.in_init,
    }


__all__ = ["Call", "calls", "is_worker", "told"]
