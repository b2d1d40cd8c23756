"""What every asyncio task of this process awaits: in an async actor the stacks of threads show nothing but the event loop."""

from __future__ import annotations

import sys
import time
from types import FrameType
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from .. import awaiting
from ..attributes import is_library, place, threads
from ..awaiting import field
from ..reachable import frames_of_others
from .ray_waits import actor_of, told_of

if TYPE_CHECKING:
    from ..core import Agent

COST = "0.1 ms and 20 us a task; walks from each coroutine to what it awaits, runs nothing of the user's"

_first_seen: Dict[int, Tuple[int, float]] = {}
"""By the id of a task: the id of what it awaits, and since when we have seen it do so."""


def run(agent: Agent, *, most: int = 500) -> Dict[str, Any]:
    """``{"tasks": [...], "left_out": n}``: all tasks that are not done, of every event loop, at most `most`.

    Each has ``id`` and ``awaits`` (the ids of the tasks for which it waits, also in a gather), ``name`` (asyncio's), ``thread`` and ``tid``
    (of its loop; None where no thread runs that), ``task_id`` (Ray's, in hex: the actor call that runs in it; None for others) and
    ``actor_id``, ``method`` (the user's outermost coroutine, ``"Collector.run"``; on Python 3.9 and 3.10 without the class; None where
    there is none), ``state`` (``"waiting"``, ``"ready"``: goes on at the loop's next turn, ``"running"``), ``where`` (``"file:line
    function"``: the user's innermost frame, or None), ``chain`` (``[file, line, function]``, innermost first), ``waits_for`` (in words:
    ``"asyncio.sleep"``, ``"Lock.acquire"``, ``"ObjectRef"``, ``"gather of 3"``, ``"task Task-7"``, ``"a function in an executor"``,
    ``"a future"``; None where it does not wait), ``refs`` (the references that it
    awaits, also in a gather, each as one of ``waits_for`` of `ray_waits`), ``seen_waiting_s`` (for how long this agent has seen it at
    this very wait: a lower bound, 0.0 at first; None where it does not wait), ``ours`` (True where nothing of the user's is
    in it: the library's own).
    """
    if "asyncio.tasks" not in sys.modules:
        return {"tasks": [], "left_out": 0}
    frames = frames_of_others()
    live = awaiting.tasks(frames)
    rows = [_row(task, frames) for task in live[:most]]
    gone = _first_seen.keys() - {id(task) for task in live}
    for ident in gone:
        _first_seen.pop(ident, None)
    return {"tasks": rows, "left_out": max(0, len(live) - most)}


def _row(task: Any, frames: Dict[int, FrameType]) -> Dict[str, Any]:
    coroutine, waiter = field(task, "_coro"), field(task, "_fut_waiter")
    thread = awaiting.thread_of(field(task, "_loop"), frames)
    chain = awaiting.chain_of(task, frames, thread)
    name, tid = threads().get(thread, (None, None)) if thread is not None else (None, None)
    state = "running" if awaiting.is_running(coroutine) else "ready" if waiter is None else "waiting"
    users = [frame for frame in chain if not is_library(frame.f_code.co_filename)]
    task_id = awaiting.ray_task_id(task)
    return {
        "id": id(task),
        "awaits": [id(other) for other in awaiting.tasks_behind(waiter)],
        "name": awaiting.name(task),
        "thread": name,
        "tid": tid,
        "task_id": task_id,
        "actor_id": None if task_id is None else actor_of(task_id),
        "method": _function(users[-1]) if users else None,
        "state": state,
        "where": place(users[0]) if users else None,
        "chain": [(f.f_code.co_filename, f.f_lineno or f.f_code.co_firstlineno, _function(f)) for f in chain],
        "waits_for": awaiting.words(waiter, chain) if state == "waiting" else None,
        "refs": list(told_of(awaiting.refs(waiter))),
        "seen_waiting_s": _seen_waiting(task, waiter),
        "ours": not users and task_id is None,
    }


def _function(frame: FrameType) -> str:
    name: str = getattr(frame.f_code, "co_qualname", None) or frame.f_code.co_name
    return name


def _seen_waiting(task: Any, waiter: Any) -> Optional[float]:
    if waiter is None:
        _first_seen.pop(id(task), None)
        return None
    now = time.monotonic()
    known, since = _first_seen.get(id(task), (0, now))
    if known != id(waiter):
        since = now
    _first_seen[id(task)] = id(waiter), since
    return now - since


__all__: List[str] = ["COST", "run"]
