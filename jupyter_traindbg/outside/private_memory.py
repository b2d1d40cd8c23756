"""What processes have for themselves, and by how much that grows: pages that are shared with a parent until somebody writes to them."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from . import procfs

__all__ = ["Growth", "growth", "private_bytes"]

EVERY_S = 0.05
LEAST_READINGS = 4
WORTH_BYTES = 2**20
"""What rises less while it is looked at does not grow."""
FEW_PAGES = 32
"""A process in which fewer have come in since it was read is not read again: that takes some milliseconds of its own memory's lock."""
CONFIRMED, EVEN = 8, 0.2
"""So many times as long it is looked where something seems to grow; and the share of the mean rise of a third that each has to have."""


def private_bytes(pid: int) -> int | None:
    """Of ``/proc/PID/smaps_rollup``; None where it is gone or not ours to look at. 20 us a MiB of what it has."""
    fields = procfs.fields(f"/proc/{pid}/smaps_rollup")
    told = [fields[name].split() for name in ("Private_Clean", "Private_Dirty") if name in fields]
    return sum(int(words[0]) for words in told) * 1024 if told else None


class Pages(NamedTuple):
    """How often a page has come in so far, and how many are there now."""

    faults: int
    resident: int


def pages(pid: int) -> Pages | None:
    """Of ``/proc/PID/stat``; None where it is gone. No page becomes private without a fault; one of a huge page brings 512. 20 us."""
    fields = procfs.text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return Pages(int(fields[7]) + int(fields[9]), int(fields[21])) if len(fields) > 21 else None


class Growth(NamedTuple):
    """``private_bytes`` now; how many more ``a_second``, 0 where the later half is not above the earlier one; whether it rose
    ``evenly``, in the ``watched_s`` that it was looked at.
    """

    private_bytes: int
    a_second: float = 0.0
    evenly: bool = False
    watched_s: float = 0.0


class _Readings:
    """Of one process, oldest first; it is read again only where it may have changed."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.values: list[int] = []
        self._pages: Pages | None = None

    def take(self) -> bool:
        """Whether it is still there."""
        now, before = pages(self.pid), self._pages
        if now is not None and before is not None and _is_near(now, before):
            self.values.append(self.values[-1])
            return True
        value = private_bytes(self.pid)
        if value is None:
            return False
        self.values.append(value)
        self._pages = now
        return True


def _is_near(now: Pages, before: Pages) -> bool:
    return now.faults - before.faults < FEW_PAGES and abs(now.resident - before.resident) < FEW_PAGES


def growth(pids: Sequence[int], window_s: float, answered: threading.Event | None = None) -> Mapping[int, Growth]:
    """By pid. Reads for `window_s`, at least `LEAST_READINGS` times, and until `answered` is set: a training that is entered or looked into
    asks its workers for less meanwhile. Where some seem to grow, eight times as long from then on. Those that end meanwhile are left out.
    """
    readings = {pid: _Readings(pid) for pid in pids}
    answered = answered or _at_once()
    first, began = 0, time.monotonic()
    _read(readings, began + window_s, answered)
    if any(_seems_to_rise(one.values) for one in readings.values()):
        first, began = min(len(one.values) for one in readings.values()), time.monotonic()
        _read(readings, began + CONFIRMED * window_s, answered, first)
    took_s = max(EVERY_S, time.monotonic() - began)
    seen = {pid: one.values[first:] for pid, one in readings.items()}
    return {pid: Growth(values[-1], _rise(values) / took_s, _is_even(values), took_s) for pid, values in seen.items()}


def _at_once() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


def _read(readings: dict[int, _Readings], ends: float, answered: threading.Event, first: int = 0) -> None:
    """At least `LEAST_READINGS` more than `first`."""
    while readings:
        over = answered.is_set() and time.monotonic() >= ends
        for pid, one in list(readings.items()):
            if not one.take():
                del readings[pid]
        if over and min((len(one.values) for one in readings.values()), default=0) >= first + LEAST_READINGS:
            return
        if answered.is_set():
            time.sleep(EVERY_S)
        else:
            answered.wait(EVERY_S)


def _seems_to_rise(values: Sequence[int]) -> bool:
    """Whether a longer look may tell that it does: it never fell, and rose at last. It may have stood still while the training was entered,
    and what rose once has just begun to work.
    """
    rises = [b - a for a, b in itertools.pairwise(values)]
    never_fell = min(rises) >= 0 and sum(rises) >= WORTH_BYTES
    return (never_fell and sum(rise > 0 for rise in rises[-3:]) > 1) or _rise(values) > 0


def _rise(values: Sequence[int]) -> int:
    half = len(values) // 2
    grown = len(values) >= LEAST_READINGS and max(values[:half]) < min(values[-half:])
    rise = values[-1] - values[0]
    return rise if grown and rise >= WORTH_BYTES else 0


def _is_even(values: Sequence[int]) -> bool:
    """Whether no third rises much less than the others: what is new warms up, and levels off."""
    ends = [(len(values) - 1) * n // 3 for n in range(4)]
    rises = [values[b] - values[a] for a, b in itertools.pairwise(ends)]
    return min(rises) >= EVEN * sum(rises) / 3 > 0
