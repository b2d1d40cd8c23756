"""Which thread waits for which lock, who holds it, and whether they wait in a circle."""

from __future__ import annotations

import time
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Tuple

from .. import reachable
from ..attributes import MISSING, OUR_THREADS, attribute, place, threads, users_place
from ..bytecode import Path, Reading, may_hold, written
from ..lock_kinds import can_be_held, is_free, kind, lock_behind, owner

if TYPE_CHECKING:
    from ..core import Agent

COST = "0.2 ms and 0.3 ms for each function on the stacks that takes a lock; reads bytecode and locals, touches no lock"
WINDOW_S = 0.003
"""Who stands at the same instruction after it does wait."""


class Place(NamedTuple):
    """A lock as one frame sees it."""

    what: Any
    path: Optional[Path]
    kind: str
    where: str
    how: str


class Thread(NamedTuple):
    ident: int
    name: str
    tid: Optional[int]


class Seen(NamedTuple):
    """One thread, and the locks that it waits for and holds."""

    thread: Thread
    where: Optional[str]
    waits: Optional[Place]
    holds: List[Place]


def run(agent: Agent) -> Dict[str, Any]:
    """``{"threads": [...], "cycles": [[tid, ...], ...], "ours": [tid, ...]}``: every thread that waits for a lock or its like, and every
    one that holds what another waits for. A library's own thread that waits for something to do is left out.

    Of each thread ``thread`` (name), ``tid``, ``where`` (the user's innermost ``"file:line function"``, or None), ``waits_for`` (None,
    or a lock), and ``holds`` (locks). A lock is ``{"name": "self.b", "id": 139872..., "kind": "Lock", "where": "file:line function"}``:
    ``name`` as written in the source (None where it is more than a name), ``id`` tells one from another (None where its object could
    not be found), ``kind`` is ``"Lock"``, ``"RLock"``, ``"Condition"`` (for a notification), ``"Semaphore"``, ``"Event"``,
    ``"Barrier"``, ``"Queue"``, ``"Thread"`` (to be joined), ``"Future"`` or the name of a class, ``where`` is the frame that waits for
    it or took it.

    ``waits_for`` has ``held_by``, too: ``[{"thread", "tid", "where", "how"}]``, where ``how`` is ``"owner"`` (the lock itself says so),
    ``"with"`` (a frame of that thread stands inside ``with`` the same object), ``"acquire"`` (it has called ``acquire()`` and not
    ``release()``: likely) or ``"itself"`` (a thread that is joined). Empty where nobody in this process can be seen to hold it.

    A cycle begins with its lowest tid and goes on to the thread that is waited for. A thread that waits for its own lock is one, too.
    ``ours`` are the tids of this debugger's own threads, of which nothing else is told.
    """
    before = {ident: _standing(frame) for ident, frame in reachable.frames_of_others().items()}
    time.sleep(WINDOW_S)
    known = threads()
    look = _Look()
    seen = []
    for ident, frame in reachable.frames_of_others().items():
        name, tid = known.get(ident, ("unknown to threading", None))
        if name not in OUR_THREADS:
            stands = before.get(ident) == _standing(frame)
            seen.append(look.at(Thread(ident, name, tid), frame, stands))
    return {**_told(seen), "ours": [tid for name, tid in known.values() if name in OUR_THREADS]}


def _standing(frame: FrameType) -> Tuple[int, int]:
    return id(frame), frame.f_lasti


# --- one thread ----------------------------------------------------------------------------------------------------


_WAITING = ("threading", "queue", "concurrent.futures._base", "multiprocessing.synchronize", "multiprocessing.queues")
"""The modules whose functions only pass a wait on; what matters is who calls them, and on what."""
_TAKING = ("acquire", "__enter__")
Stack = List[Tuple[FrameType, Dict[str, Any]]]


class _Look:
    """Reads each function once, however many threads are in it."""

    def __init__(self) -> None:
        self._readings: Dict[int, Tuple[CodeType, Reading]] = {}

    def at(self, thread: Thread, innermost: FrameType, stands: bool) -> Seen:
        stack = list(reachable.look_at_stack(innermost))
        waits = self._waits(stack) if stands else None
        let_go = _let_go(stack) if waits is not None else None
        holds: List[Place] = []
        for frame, local in stack:
            for how, path in self._reading(frame).holds(frame.f_lasti) if may_hold(frame.f_code) else ():
                what = lock_behind(_resolve(path, frame, local))
                passing_on = (
                    how == "acquire" and frame.f_globals.get("__name__") in _WAITING
                )  # such as a condition's own waiter
                if (
                    can_be_held(what)
                    and what is not let_go
                    and not passing_on
                    and all(what is not h.what for h in holds)
                ):
                    holds.append(Place(what, path, kind(what), place(frame), how))
        return Seen(thread, users_place(innermost), waits, holds)

    def _reading(self, frame: FrameType) -> Reading:
        code = frame.f_code
        if id(code) not in self._readings:
            self._readings[id(code)] = code, Reading(code)  # the code is kept: its id must not become another's
        return self._readings[id(code)][1]

    def _waits(self, stack: Stack) -> Optional[Place]:
        """What a thread waits for that stands still; None where it does something else."""
        depth = 0
        while depth < len(stack) and stack[depth][0].f_globals.get("__name__") in _WAITING:
            depth += 1
        if depth == len(stack):
            return None  # a thread of one of these modules' own
        frame, local = stack[depth]
        if depth == 0:
            return self._taking(frame, local)
        called, its = stack[depth - 1]
        method, what = called.f_code.co_name, its.get("self", MISSING)
        if what is MISSING or method == "run":
            return None
        call = self._reading(frame).call(frame.f_lasti, (method,))
        if method in _TAKING:
            what = lock_behind(what)
        return Place(what, None if call is None else call.path, kind(what), place(frame), "")

    def _taking(self, frame: FrameType, local: Dict[str, Any]) -> Optional[Place]:
        """The lock at which `frame` itself stands, in C code of the interpreter's."""
        call = self._reading(frame).call(frame.f_lasti, _TAKING)
        if call is None:
            return None
        what = lock_behind(_resolve(call.path, frame, local))
        if what is not MISSING and (not can_be_held(what) or is_free(what)):
            return None
        return Place(what, call.path, "not known" if what is MISSING else kind(what), place(frame), "")


def _let_go(stack: Stack) -> Any:
    """The lock of the condition that this thread waits at, which it does not hold meanwhile; None where it waits at none."""
    for frame, local in stack[:4]:
        if frame.f_code.co_name == "wait" and frame.f_globals.get("__name__") == "threading" and "waiter" in local:
            return lock_behind(local.get("self", MISSING))
    return None


def _resolve(path: Optional[Path], frame: FrameType, local: Dict[str, Any]) -> Any:
    """The object that `path` stands for in `frame`, by plain look-ups; `MISSING` where it takes more."""
    if path is None:
        return MISSING
    value: Any = None
    for step, key in path:
        if step == "name":
            value = local.get(key, frame.f_globals.get(key, MISSING))
        elif step == "attribute":
            value = attribute(value, key)
        else:
            value = _item(value, local.get(key, MISSING) if step == "variable" else key)
        if value is MISSING:
            return MISSING
    return value


def _item(value: Any, key: Any) -> Any:
    if type(key) not in (int, str):
        return MISSING
    if type(value) is dict:
        return value.get(key, MISSING)
    if type(value) in (list, tuple) and type(key) is int and -len(value) <= key < len(value):
        return value[key]
    return MISSING


# --- all threads ----------------------------------------------------------------------------------------------------


def _told(seen: List[Seen]) -> Dict[str, Any]:
    holders = {s.thread.ident: _holders(s, seen) for s in seen}
    wanted = {id(s.waits.what) for s in seen if s.waits is not None and s.waits.what is not MISSING}
    rows = []
    for s in seen:
        holds = [_lock(h) for h in s.holds if s.waits is not None or id(h.what) in wanted]
        if (s.waits is None or _is_idle_helper(s)) and not holds:
            continue
        waits = None if s.waits is None else {**_lock(s.waits), "held_by": holders[s.thread.ident]}
        rows.append(
            {"thread": s.thread.name, "tid": s.thread.tid, "where": s.where, "waits_for": waits, "holds": holds}
        )
    return {
        "threads": rows,
        "cycles": _cycles({s.thread.tid: [h["tid"] for h in holders[s.thread.ident]] for s in seen}),
    }


def _is_idle_helper(seen: Seen) -> bool:
    """True for a library's own thread that waits for something to do."""
    return seen.where is None and seen.waits is not None and not can_be_held(seen.waits.what)


def _holders(waiting: Seen, seen: List[Seen]) -> List[Dict[str, Any]]:
    """The threads that hold what `waiting` waits for, and how that is known."""
    if waiting.waits is None or waiting.waits.what is MISSING:
        return []
    what = waiting.waits.what
    if waiting.waits.kind == "Thread":
        return [_holder(s, "itself", None) for s in seen if s.thread.ident == attribute(what, "_ident")]
    if not can_be_held(what):
        return []
    holding = [_holder(s, h.how, h.where) for s in seen for h in s.holds if h.what is what]
    ident = owner(what)
    if ident is None:
        return holding
    said = {h["tid"]: h["where"] for h in holding}
    return [_holder(s, "owner", said.get(s.thread.tid)) for s in seen if s.thread.ident == ident]


def _lock(lock: Place) -> Dict[str, Any]:
    ident = None if lock.what is MISSING else id(lock.what)
    return {"name": written(lock.path), "id": ident, "kind": lock.kind, "where": lock.where}


def _holder(holder: Seen, how: str, where: Optional[str]) -> Dict[str, Any]:
    return {"thread": holder.thread.name, "tid": holder.thread.tid, "where": where or holder.where, "how": how}


def _cycles(waits_on: Dict[Optional[int], List[int]]) -> List[List[int]]:
    """The rings among the threads, each once, from its lowest thread on."""
    found: Dict[Tuple[int, ...], None] = {}
    for start in waits_on:
        path: List[Any] = []
        current: Any = start
        while current is not None and current not in path:
            path.append(current)
            current = next(iter(waits_on.get(current, [])), None)
        if current is not None:
            ring = path[path.index(current) :]
            first = ring.index(min(ring))
            found[tuple(ring[first:] + ring[:first])] = None
    return [list(ring) for ring in found]


__all__ = ["COST", "run"]
