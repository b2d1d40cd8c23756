"""Resident memory of this process, read cheaply enough for every step."""

from __future__ import annotations

import os
from collections import deque
from typing import Deque

EVERY_S = 0.02


class Resident:
    """`read` is for the training thread; the rest is for clients."""

    def __init__(self) -> None:
        self._statm = -1
        self._page = os.sysconf("SC_PAGE_SIZE")
        self.due_s = 0.0
        """When to `read` it again, by `time.perf_counter`."""
        self.bytes = 0
        self._mapped: Deque[int] = deque(maxlen=2)
        """The resident pages of mapped files at the last two notes."""

    def open(self) -> None:
        self._statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        self.note_mapped()

    def close(self) -> None:
        if self._statm >= 0:
            os.close(self._statm)
            self._statm = -1

    def read(self, now: float) -> None:
        """Read `bytes` anew at `now`, of the clock of `time.perf_counter`; the next time is `due_s`. 2 us."""
        self.bytes = int(os.pread(self._statm, 128, 0).split()[1]) * self._page
        self.due_s = now + EVERY_S

    def note_mapped(self) -> None:
        """To be called now and then: what has grown since is told of the time since the last note but one. 20 us."""
        self._mapped.append(status_bytes("RssFile"))

    def mapped_growth_bytes(self) -> int:
        """By how much resident pages of mapped files have grown lately: the kernel drops them when it needs the memory. 20 us."""
        return status_bytes("RssFile") - self._mapped[0] if self._mapped else 0


def status_bytes(field: str) -> int:
    """A size from /proc/self/status; 0 where the kernel has no such field."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as f:
        for line in f:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    return 0
