"""Where the training thread is over a short time, and for how much of it it uses no CPU there: looks from a thread of ours, no tracing.

A look needs the GIL. Where C code keeps it (a garbage collection), the look comes late, at the line that had called that code: all the time
since the look before is that line's. How long it was late tells who computes in Python from who computes in tensors, which lets go of it.
"""

from __future__ import annotations

import os
import threading
import time
from types import CodeType, FrameType
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from .notebook import cells, numbered
from .reachable import frames_of_others

EVERY_S = 0.02
MOST_STACKS, MOST_FRAMES = 128, 48

Stack = Tuple[Tuple[CodeType, int], ...]
"""Code and line of each frame, innermost first."""


class Look(NamedTuple):
    """One look. ``wall_s``: since the one before; ``idle_s``: how much of that the thread neither ran nor waited for a CPU, None where the
    kernel keeps no account; ``late_s``: how long we waited for the GIL; ``call``: the number of the system call that it sat in.
    """

    at: float
    stack: Stack
    wall_s: float
    idle_s: Optional[float]
    late_s: float
    call: Optional[int]

    @property
    def place(self) -> Tuple[Any, ...]:
        """Stack and call, to compare: hashing code objects would take ten times as long."""
        return (self.call, *((id(code), line) for code, line in self.stack))


class _Seen:
    """A stack that was seen, and the number of the system call that the thread sat in, where the kernel tells."""

    def __init__(self, stack: Stack, call: Optional[int]) -> None:
        self.stack, self.call = stack, call
        self.looks = 0
        self.wall_s = 0.0
        self.idle_s = 0.0


def looks(thread_id: int, pause_s: Callable[[float], float], going: Callable[[], bool]) -> Iterator[Look]:
    """Look at a thread while `going` and until it ends, on the calling thread, `pause_s` after each look: of what one cost, in seconds of
    CPU. 0.03 to 0.1 ms a look, of the GIL too.
    """
    then = time.perf_counter()
    tid = next((t.native_id for t in threading.enumerate() if t.ident == thread_id), None)
    with _Accounts(tid) as its, _Accounts(threading.get_native_id()) as own:
        used, cost = its.used_s(), 0.0
        while going():
            pause = pause_s(cost)
            slept, starved = time.perf_counter(), own.starved_s()
            time.sleep(pause)
            worked, now = time.thread_time(), time.perf_counter()
            frame = frames_of_others().get(thread_id)
            if frame is None:
                return  # the thread has ended
            stack = _stack(frame)  # before the GIL is let go of
            del frame
            call, uses = its.call(), its.used_s()
            idle = None if uses is None or used is None else max(0.0, now - then - (uses - used))
            late = now - slept - pause - (own.starved_s() - starved)
            yield Look(now, stack, now - then, idle, max(0.0, late), call)
            then, used = now, uses
            cost = time.thread_time() - worked


def sample(thread_id: int, seconds: float, going: Callable[[], bool]) -> Dict[str, Any]:
    """Look at a thread every `EVERY_S` for so many seconds, while `going`, on the calling thread.

    ``stacks``: each as ``frames`` (file, line, function; innermost first), ``call`` (the number of a system call, or None), and how often
    and for how long it was seen there: ``wall_s``, and ``idle_s`` of that in which it neither ran nor waited for a CPU. That is None where
    the kernel keeps no account. Those beyond `MOST_STACKS` different ones are counted in ``looks`` and ``wall_s`` only.
    """
    places: Dict[Tuple[Any, ...], _Seen] = {}
    many, began, accounted = 0, time.perf_counter(), True
    then = began
    for look in looks(thread_id, lambda cost: EVERY_S, lambda: time.perf_counter() - began < seconds and going()):
        seen = places.get(look.place)
        if seen is None and len(places) < MOST_STACKS:
            seen = places[look.place] = _Seen(look.stack, look.call)
        if seen is not None:
            seen.looks += 1
            seen.wall_s += look.wall_s
            seen.idle_s += look.idle_s or 0.0
        many, then, accounted = many + 1, look.at, look.idle_s is not None
    return {
        "looks": many,
        "wall_s": then - began,
        "stacks": [
            {
                "frames": readable(seen.stack),
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
    return readable(_stack(frame))


def readable(stack: Stack) -> List[Tuple[Any, ...]]:
    """``(file, line, function)`` of each, and of a notebook's cell its number."""
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


class _Accounts:
    """What the kernel tells of a thread; its files stay open, since opening them would cost more than all the rest of a look."""

    def __init__(self, tid: Optional[int]) -> None:
        self._files = {name: _opened(f"/proc/self/task/{tid}/{name}") for name in ("schedstat", "syscall")}

    def __enter__(self) -> _Accounts:
        return self

    def __exit__(self, *exc_info: object) -> None:
        for fd in self._files.values():
            if fd is not None:
                os.close(fd)

    def used_s(self) -> Optional[float]:
        """Seconds that it has run, or waited for a CPU; None where the kernel does not tell."""
        fields = self._read("schedstat")
        return (int(fields[0]) + int(fields[1])) / 1e9 if len(fields) > 1 else None

    def starved_s(self) -> float:
        """Seconds that it has waited for a CPU; 0 where the kernel does not tell."""
        fields = self._read("schedstat")
        return int(fields[1]) / 1e9 if len(fields) > 1 else 0.0

    def call(self) -> Optional[int]:
        """The number of the system call that it sits in; None where it runs, or the kernel does not tell."""
        fields = self._read("syscall")
        return int(fields[0]) if len(fields) > 1 and fields[0] != b"-1" else None

    def _read(self, name: str) -> List[bytes]:
        fd = self._files[name]
        try:
            return [] if fd is None else os.pread(fd, 256, 0).split()
        except OSError:  # the thread has ended
            return []


def _opened(path: str) -> Optional[int]:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
