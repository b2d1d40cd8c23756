"""All Python threads of this process, from inside: their frames and which of them use the CPU."""

from __future__ import annotations

import os
import threading
import time
from types import FrameType
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from ..notebook import cells, numbered
from ..reachable import frames_of_others
from ..training_thread import training_thread

if TYPE_CHECKING:
    from ..core import Agent

COST = "0.1 ms of the GIL, and 3 ms asleep to see which threads use the CPU"
WINDOW_S = 0.003
MOST_FRAMES = 256
PEER_DEPTH = 4
"""A wait in ``recv`` is that near to the top of the stack."""
OURS = os.path.dirname(os.path.dirname(__file__)) + os.sep


def run(agent: Agent) -> Dict[str, Any]:
    """Innermost frame first. ``cpu`` is each thread's share of one CPU during a window of 3 ms in which this thread slept."""
    threads = {t.ident: (t.name, getattr(t, "native_id", None)) for t in threading.enumerate()}
    asked = time.perf_counter()
    before = {tid: _cpu_ns(tid) for _, tid in threads.values()}
    began = time.perf_counter()
    time.sleep(WINDOW_S)
    frames = frames_of_others()
    window = time.perf_counter() - began
    out, training = [], training_thread(agent)
    for ident, frame in frames.items():
        name, tid = threads.get(ident, ("unknown to threading", None))
        if name in ("traindbg-agent", "traindbg-client"):
            continue
        now, then = _cpu_ns(tid), before.get(tid)
        peer, tag = _exchange(frame)
        out.append(
            {
                "name": name,
                "tid": tid,
                "training": ident == training,
                "cpu": None if now is None or then is None else min(1.0, (now - then) / 1e9 / window),
                "frames": _frames(frame),
                "peer": peer,
                "tag": tag,
            }
        )
    return {"pid": os.getpid(), "threads": out, "gil_wait_s": max(0.0, window - WINDOW_S), "asked_s": began - asked}


def _frames(frame: Optional[FrameType]) -> List[Any]:
    """At most `MOST_FRAMES`, without those of our own timers, which stand between the user's code and torch's."""
    out: List[Any] = []
    numbers = cells()
    while frame is not None and len(out) < MOST_FRAMES:
        file = frame.f_code.co_filename
        if not file.startswith(OURS):
            out.append(numbered(file, frame.f_lineno or frame.f_code.co_firstlineno, _name(frame), numbers))
        frame = frame.f_back
    return out


def _exchange(frame: Optional[FrameType]) -> Tuple[Optional[int], Optional[int]]:
    """The rank and the tag that torch's ``send`` or ``recv`` was called with, where `frame` stands in one: gloo's records of calls leave
    these out.
    """
    for _ in range(PEER_DEPTH):
        if frame is None:
            break
        name, file = frame.f_code.co_name, frame.f_code.co_filename
        if name in ("send", "recv") and file.endswith("distributed_c10d.py"):
            local = frame.f_locals
            rank, tag = (local.get(what) for what in ("dst" if name == "send" else "src", "tag"))
            return rank if isinstance(rank, int) else None, tag if isinstance(tag, int) else None
        frame = frame.f_back
    return None, None


def _name(frame: FrameType) -> str:
    return getattr(frame.f_code, "co_qualname", None) or frame.f_code.co_name


def _read(tid: Optional[int], what: str) -> Optional[str]:
    if tid is None:
        return None
    try:
        with open(f"/proc/self/task/{tid}/{what}", encoding="ascii") as f:
            return f.read()
    except OSError:
        return None  # the thread has ended, or the kernel does not show it


def _cpu_ns(tid: Optional[int]) -> Optional[int]:
    text = _read(tid, "schedstat")
    return int(text.split()[0]) if text else None
