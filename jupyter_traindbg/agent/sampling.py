"""Where the training thread is over a short time, and for how much of it it uses no CPU there: looks from a thread of ours, no tracing."""

from __future__ import annotations

import threading
import time
from types import CodeType, FrameType
from typing import Any, Callable, Dict, List, Optional, Tuple

from .notebook import cells, numbered
from .reachable import frames_of_others

EVERY_S = 0.02
MOST_STACKS, MOST_FRAMES = 128, 48

Stack = Tuple[Tuple[CodeType, int], ...]
"""Code and line of each frame, innermost first."""


class _Seen:
    """A stack that was seen, and the number of the system call that the thread sat in, where the kernel tells."""

    def __init__(self, stack: Stack, call: Optional[int]) -> None:
        self.stack, self.call = stack, call
        self.looks = 0
        self.wall_s = 0.0
        self.idle_s = 0.0


def sample(thread_id: int, seconds: float, going: Callable[[], bool]) -> Dict[str, Any]:
    """Look at a thread every `EVERY_S` for so many seconds, while `going`, on the calling thread. 0.04 to 0.3 ms a look, of the GIL too.

    ``stacks``: each as ``frames`` (file, line, function; innermost first), ``call`` (the number of a system call, or None), and how often
    and for how long it was seen there: ``wall_s``, and ``idle_s`` of that in which it neither ran nor waited for a CPU. That is None where
    the kernel keeps no account. Those beyond `MOST_STACKS` different ones are counted in ``looks`` and ``wall_s`` only.
    """
    tid = next((t.native_id for t in threading.enumerate() if t.ident == thread_id), None)
    places: Dict[Tuple[Any, ...], _Seen] = {}
    looks, began = 0, time.perf_counter()
    then, used = began, _used_s(tid)
    accounted = used is not None
    while then - began < seconds and going():
        time.sleep(EVERY_S)
        frame = frames_of_others().get(thread_id)
        call = _call(tid)
        now, uses = time.perf_counter(), _used_s(tid)
        if frame is None:
            break  # the thread has ended
        stack = _stack(frame)
        del frame
        place = (call, *((id(code), line) for code, line in stack))  # hashing code objects would take ten times as long
        seen = places.get(place)
        if seen is None and len(places) < MOST_STACKS:
            seen = places[place] = _Seen(stack, call)
        if seen is not None:
            seen.looks += 1
            seen.wall_s += now - then
            seen.idle_s += 0.0 if uses is None or used is None else max(0.0, now - then - (uses - used))
        looks, then, used = looks + 1, now, uses
    return {
        "looks": looks,
        "wall_s": then - began,
        "stacks": [
            {
                "frames": _readable(seen.stack),
                "call": seen.call,
                "looks": seen.looks,
                "wall_s": seen.wall_s,
                "idle_s": seen.idle_s if accounted else None,
            }
            for seen in places.values()
        ],
    }


def frames_from(frame: Optional[FrameType]) -> List[Tuple[Any, ...]]:
    """``(file, line, function)`` from `frame` outwards, `MOST_FRAMES` at most; of a notebook's cell its number, too."""
    return _readable(_stack(frame))


def _readable(stack: Stack) -> List[Tuple[Any, ...]]:
    numbers = cells()
    return [numbered(code.co_filename, line, _name(code), numbers) for code, line in stack]


def _stack(frame: Optional[FrameType]) -> Stack:
    found: List[Tuple[CodeType, int]] = []
    while frame is not None and len(found) < MOST_FRAMES:
        if frame.f_globals.get("__package__") != __package__:  # our wrappers stand between the user's code and torch's
            found.append((frame.f_code, frame.f_lineno or frame.f_code.co_firstlineno))
        frame = frame.f_back
    return tuple(found)


def _name(code: CodeType) -> str:
    return getattr(code, "co_qualname", None) or code.co_name


def _used_s(tid: Optional[int]) -> Optional[float]:
    """Seconds that a thread has run, or waited for a CPU; None where the kernel does not tell."""
    fields = _read(tid, "schedstat")
    return (int(fields[0]) + int(fields[1])) / 1e9 if len(fields) > 1 else None


def _call(tid: Optional[int]) -> Optional[int]:
    """The number of the system call that a thread sits in; None where it runs, or the kernel does not tell."""
    fields = _read(tid, "syscall")
    return int(fields[0]) if len(fields) > 1 and fields[0] != "-1" else None


def _read(tid: Optional[int], what: str) -> List[str]:
    try:
        with open(f"/proc/self/task/{tid}/{what}", encoding="ascii") as f:
            return f.read().split()
    except OSError:
        return []
