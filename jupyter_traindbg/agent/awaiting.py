"""From an asyncio task to what it awaits, by the fields of asyncio's own objects. Nothing is called that a subclass may override."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from contextvars import Context
from types import AsyncGeneratorType, CoroutineType, FrameType, GeneratorType
from typing import Any, Dict, List, Optional

from . import reachable
from .attributes import MISSING, attribute, attributes, class_name, classes

LONGEST = 200
TRIES = 100
_ASYNCIO = os.path.dirname(asyncio.__file__) + os.sep
_LINKS = {
    CoroutineType: ("cr_frame", "cr_await"),
    GeneratorType: ("gi_frame", "gi_yieldfrom"),
    AsyncGeneratorType: ("ag_frame", "ag_await"),
}
_WRAPPERS = ("coroutine_wrapper", "async_generator_asend", "async_generator_athrow", "anext_awaitable")
"""C objects that stand for a coroutine or generator, and show it to the garbage collector alone."""


# --- tasks ---------------------------------------------------------------------------------------------------------


def tasks(frames: Dict[int, FrameType]) -> List[Any]:
    """All tasks that are not done, in no order. `frames` are those of the running threads."""
    sets = [vars(asyncio.tasks).get(name) for name in ("_all_tasks", "_scheduled_tasks", "_eager_tasks")]
    found = {id(task): task for one in sets if one is not None for task in _members(one)}
    if sys.version_info >= (3, 14):  # the loops have lists of their own
        for frame in frames.values():
            loop = _loop_of(frame)
            found.update({id(task): task for task in (asyncio.all_tasks(loop) if loop is not None else ())})
    return [task for task in found.values() if field(task, "_state") == "PENDING"]


def _members(group: Any) -> List[Any]:
    """What is in a set that its thread may be changing."""
    for _ in range(TRIES):
        try:
            return list(group)
        except RuntimeError:
            continue
    return []


def field(future: Any, name: str) -> Any:
    """A field of a future or task, of asyncio's C or Python kind; None where it has none."""
    for cls in classes(future):
        if cls in (asyncio.Future, asyncio.Task) and name in vars(cls):
            return vars(cls)[name].__get__(future)
    own = attributes(future).get(name)
    return own if own is not None else (_public_coroutine(future) if name == "_coro" else None)


def _public_coroutine(task: Any) -> Any:
    return asyncio.Task.get_coro(task) if any(cls is asyncio.Task for cls in classes(task)) else None


def name(task: Any) -> str:
    if any(cls is asyncio.Task for cls in classes(task)):
        return str.__str__(asyncio.Task.get_name(task))
    return str.__str__(attributes(task).get("_name", ""))


def ray_task_id(task: Any) -> Optional[str]:
    """The id of the actor call that runs in `task`, which ray keeps in its context; None where it is none."""
    raylet = sys.modules.get("ray._raylet")
    variable: Any = getattr(raylet, "async_task_id", None)
    kind: Any = getattr(raylet, "TaskID", None)
    for context in gc.get_referents(task) if variable is not None else ():
        if type(context) is Context:
            ident = context.get(variable)
            if ident is not None and type(ident) is kind:
                hexadecimal: str = kind.hex(ident)
                return hexadecimal
    return None


def thread_of(loop: Any, frames: Dict[int, FrameType]) -> Optional[int]:
    """The ident of the thread that runs `loop`; None where none does, or it is a loop of another make."""
    ident = attributes(loop).get("_thread_id")
    return ident if isinstance(ident, int) and ident in frames else None


def _loop_of(innermost: FrameType) -> Any:
    for frame, local in reachable.look_at_stack(innermost):
        if frame.f_code.co_name == "run_forever" and frame.f_code.co_filename.startswith(_ASYNCIO):
            return local.get("self")
    return None


# --- chains --------------------------------------------------------------------------------------------------------


def chain(coroutine: Any) -> List[FrameType]:
    """The frames from what is awaited innermost out to `coroutine` itself. Those of C code (Cython's) have none."""
    found: List[FrameType] = []
    for awaited in _links(coroutine):
        frame = _read(awaited, 0)
        if type(frame) is FrameType:
            found.append(frame)
    return found[::-1]


def chain_on_stack(innermost: FrameType) -> List[FrameType]:
    """The frames of the task that a loop's thread runs just now: a coroutine that runs does not say what it awaits."""
    found: List[FrameType] = []
    frame: Optional[FrameType] = innermost
    while frame is not None and not (frame.f_code.co_name == "_run" and frame.f_code.co_filename.startswith(_ASYNCIO)):
        found.append(frame)
        frame = frame.f_back
    return found if frame is not None else []


def chain_of(task: Any, frames: Dict[int, FrameType], thread: Optional[int]) -> List[FrameType]:
    """The frames of `task`, innermost first, also while it runs; `thread` is that of its loop, `frames` are those of all threads."""
    coroutine = field(task, "_coro")
    if is_running(coroutine) and thread in frames:
        return chain_on_stack(frames[thread])
    return chain(coroutine)


def is_running(coroutine: Any) -> bool:
    for flag in ("cr_running", "gi_running", "ag_running"):
        if flag in vars(type(coroutine)):
            return bool(vars(type(coroutine))[flag].__get__(coroutine))
    return False


def _links(coroutine: Any) -> List[Any]:
    """`coroutine`, what it awaits, what that awaits, ..."""
    found: List[Any] = []
    while coroutine is not None and len(found) < LONGEST and all(coroutine is not c for c in found):
        found.append(coroutine)
        coroutine = _read(coroutine, 1)
    return found


def _read(awaited: Any, which: int) -> Any:
    """The frame (0) of a link, or the next link (1)."""
    kind = type(awaited)
    if kind in _LINKS:
        return getattr(awaited, _LINKS[kind][which])
    if kind.__name__ in _WRAPPERS and (kind.__module__ == "builtins" or "cython" in kind.__module__):
        inside = [r for r in gc.get_referents(awaited) if type(r) in _LINKS or _is_cython(type(r))]
        return inside[0] if which == 1 and inside else None
    if _is_cython(kind):
        return vars(kind)[_LINKS[CoroutineType][which]].__get__(awaited)
    return None


def _is_cython(kind: type) -> bool:
    return "cython" in kind.__module__ and "cr_await" in vars(kind)


# --- what is awaited -----------------------------------------------------------------------------------------------


def words(waiter: Any, frames: List[FrameType]) -> str:
    """What a task waits for, whose innermost frames are `frames` and which waits at the future `waiter`."""
    children = _gathered(waiter)
    if children is not None:
        return f"gather of {len(children)}"
    if any(cls is asyncio.Task for cls in classes(waiter)):
        return f"task {name(waiter)}"
    if refs(waiter):
        return "ObjectRef"
    if frames and frames[0].f_code.co_filename.startswith(_ASYNCIO):
        return _function_of_asyncio(frames[0])
    return "a future" if _source(waiter) is None else "a function in an executor"


def _gathered(waiter: Any) -> Optional[List[Any]]:
    """The parts of a gather; None for any other future."""
    if type(waiter) is vars(asyncio.tasks).get("_GatheringFuture"):
        return list(waiter._children)
    return None


def tasks_behind(waiter: Any) -> List[Any]:
    """The tasks that are not done for which one waits at the future `waiter`: itself, or the parts of a gather."""
    parts = _gathered(waiter)
    inner = [waiter] if parts is None else parts
    live = [f for f in inner if any(cls is asyncio.Task for cls in classes(f)) and field(f, "_state") == "PENDING"]
    return live[:LONGEST]


def _function_of_asyncio(frame: FrameType) -> str:
    function = frame.f_code.co_name
    _, local = next(iter(reachable.look_at_stack(frame)))
    owner = local.get("self")
    return f"asyncio.{function}" if owner is None else f"{class_name(owner)}.{function}"


def refs(waiter: Any, depth: int = 3) -> List[Any]:
    """The ``ObjectRef``s behind a future: its own, or those of a gather's parts."""
    if waiter is None or depth == 0:
        return []
    source = _source(waiter)
    own = attribute(source, "object_ref") if source is not None else MISSING
    if own is not MISSING:
        return [own]
    children = _gathered(waiter)
    inner = [field(waiter, "_fut_waiter")] if children is None else children
    return [ref for child in inner for ref in refs(child, depth - 1)]


def _source(waiter: Any) -> Any:
    """The future of another thread that will set `waiter`: asyncio has left it in a callback's closure. None where there is none."""
    for callback in field(waiter, "_callbacks") or ():
        function = callback[0] if isinstance(callback, tuple) else callback
        if getattr(type(function), "__name__", "") == "function" and function.__name__ == "_call_check_cancel":
            cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
            return cells["source"].cell_contents if "source" in cells else None
    return None


__all__ = [
    "chain",
    "chain_of",
    "chain_on_stack",
    "field",
    "is_running",
    "name",
    "ray_task_id",
    "refs",
    "tasks",
    "tasks_behind",
    "thread_of",
    "words",
]
