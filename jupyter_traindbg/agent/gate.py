"""Keeps our reading of ``.grad`` and autograd's writing of it apart.

A backward pass runs without the GIL and replaces ``.grad`` from C++; whoever reads the attribute from another thread in that moment may
pick up a tensor that is just being freed, and the process dies. So gradients are read from a client's thread only while no backward
pass runs, and one that wants to begin waits the microseconds that the reading takes. (On the training thread, at a safe point, they
can be read without this.)
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from operator import attrgetter
from typing import Any, Deque, List, Optional, Sequence

HOLD_UP_S = 0.2
"""The longest that a backward pass is ever held up; a reading takes a thousandth of that."""
IDLE_WINDOW_S, IDLE_CPU_S = 0.1, 0.002
_grads = attrgetter("grad")


class BackwardGate:
    """`enter` and `leave` stand around each backward pass; `read` goes through when none runs."""

    def __init__(self) -> None:
        self._running: Deque[int] = deque()
        self._reading = False
        self._one_reader = threading.Lock()

    def enter(self) -> None:
        """Before a backward pass, on its thread. Announce first, then look: with the GIL, one of the two sides sees the other."""
        self._running.append(1)
        if self._reading:
            self._wait()

    def _wait(self) -> None:
        ends = time.monotonic() + HOLD_UP_S
        while self._reading and time.monotonic() < ends:
            self._running.pop()
            time.sleep(0.00005)
            self._running.append(1)

    def leave(self) -> None:
        """After it, however it ended."""
        self._running.pop()

    def read(self, parameters: Sequence[Any], wait_s: float) -> Optional[List[Any]]:
        """The gradient of each of `parameters` (leaves all), or None where a backward pass runs for longer than `wait_s`.

        One that stands still, with the whole process idle, is a hung one: nothing is being written then.
        """
        ends = time.monotonic() + wait_s
        if not self._one_reader.acquire(timeout=wait_s + 1.0):
            return None
        try:
            while True:
                self._reading = True
                try:
                    if not self._running and not _backward_on_a_stack():
                        return list(map(_grads, parameters))  # in C throughout: no other thread gets the GIL in between
                finally:
                    self._reading = False
                if time.monotonic() > ends:
                    return list(map(_grads, parameters)) if _idle() else None
                time.sleep(0.001)
        finally:
            self._one_reader.release()


def _backward_on_a_stack() -> bool:
    """True where some thread is in a backward pass, also in one that began before we came."""
    for frame in sys._current_frames().values():
        step = frame
        while step is not None:
            if step.f_code.co_name == "_engine_run_backward":
                return True
            step = step.f_back  # type: ignore[assignment]
    return False


def _idle() -> bool:
    """True where no thread of this process has used a CPU for a moment."""
    before = time.process_time()
    time.sleep(IDLE_WINDOW_S)
    return time.process_time() - before < IDLE_CPU_S
