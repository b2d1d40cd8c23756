"""What comes and goes over the channels at which threads wait, as far as the kernel tells. Nothing is asked of the processes.

Of a TCP connection it counts the bytes, and knows since when there were none. Of a pipe or a Unix socket it tells nothing; but a thread
that waits there and nowhere else, and without a time limit, is given a CPU only where something has come.
"""

from __future__ import annotations

import ctypes
import re
import time
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from ..model import Flow, NotAvailable
from . import procfs, runs, tcp_counters

__all__ = ["Flows", "Place"]

RECENT_S = 10.0
"""Where nothing has come for longer, a few seconds more would show nothing either."""
_LIMIT_AT = {"poll": 2, "epoll_wait": 3, "epoll_pwait": 3}
"""Which argument of a call is its time limit in milliseconds, negative where there is none."""
_LIMIT_POINTER_AT = {"ppoll": 2, "epoll_pwait2": 3}
"""The same of those that are given the address of one."""
_SOCKET = re.compile(r"socket:\[(\d+)\]")
_NOT_COUNTED = NotAvailable("the kernel counts no bytes here")


class Place(NamedTuple):
    """Where a thread waits: at these channels, by their keys."""

    pid: int
    tid: int
    keys: Sequence[str]


class _Seen(NamedTuple):
    """What a thread is in, and how often it has been given a CPU; None where that is not counted."""

    call: str
    arguments: tuple[int, ...]
    runs: int | None


class Flows:
    """What has come and gone since this was made, at some places. A reading takes some 4 ms, and 40 us for each place."""

    def __init__(self, places: Collection[Place]) -> None:
        self.places = places
        self.began = time.monotonic()
        self._carried = tcp_counters.table() if places else {}
        self._seen = {place.tid: _look(place) for place in places}

    @property
    def may_come(self) -> bool:
        """Whether to wait for longer could show anything: something has come or gone at one of the places just before."""
        clocks = runs.Clocks()
        return any(self._is_recent(place, clocks) for place in self.places)

    def now(self) -> Mapping[tuple[int, str], Flow]:
        """What came and went so far, by the pid and the key of its channel."""
        found: dict[tuple[int, str], Flow] = {}
        carried = tcp_counters.table() if self.places else {}
        within_s = time.monotonic() - self.began
        for place in self.places:
            for key in place.keys:
                then, last = self._carried.get(_inode(key)), carried.get(_inode(key))
                if then is not None and last is not None:
                    amount = _bytes(self._seen[place.tid].call, then, last)
                    if amount:
                        found[place.pid, key] = Flow(within_s, amount)
                elif then is None and self._has_woken(place):
                    found[place.pid, key] = Flow(within_s, _NOT_COUNTED)
        return found

    def silences(self) -> Mapping[tuple[int, str], float]:
        """Since when nothing has come or gone over a connection, in seconds, by the same; only those of which the kernel tells."""
        carried = tcp_counters.table() if self.places else {}
        waits = [(place.pid, key) for place in self.places for key in place.keys]
        return {(pid, key): one.silent_s for pid, key in waits if (one := carried.get(_inode(key))) is not None}

    def _is_recent(self, place: Place, clocks: runs.Clocks) -> bool:
        counted = [self._carried[inode].silent_s for key in place.keys if (inode := _inode(key)) in self._carried]
        if counted:
            return min(counted) < RECENT_S
        still_s = clocks.still_s(f"/proc/{place.pid}/task/{place.tid}", runs.UNKNOWN)
        return _tells(place, self._seen[place.tid]) and still_s < RECENT_S

    def _has_woken(self, place: Place) -> bool:
        """Whether the thread has been given a CPU, and is back at the same place."""
        then, now = self._seen[place.tid], _look(place)
        same = (then.call, then.arguments[:1]) == (now.call, now.arguments[:1])
        return same and _tells(place, then) and then.runs is not None and then.runs != now.runs


def _look(place: Place) -> _Seen:
    call, arguments = procfs.raw_system_call(place.pid, place.tid)
    return _Seen(call, arguments, runs.count(place.pid, place.tid))


def _tells(place: Place, seen: _Seen) -> bool:
    """Whether that thread can be woken by nothing but its one channel."""
    if len(place.keys) > 1:
        return False
    if seen.call in _LIMIT_AT:
        return ctypes.c_int32(seen.arguments[_LIMIT_AT[seen.call]]).value < 0
    if seen.call in _LIMIT_POINTER_AT:
        return seen.arguments[_LIMIT_POINTER_AT[seen.call]] == 0
    return seen.call in procfs.READING or seen.call in procfs.WRITING


def _bytes(call: str, then: tcp_counters.Carried, last: tcp_counters.Carried) -> int:
    """In the direction for which the thread waits; in both where a poll leaves that open."""
    received = 0 if call in procfs.WRITING else last.received_bytes - then.received_bytes
    taken = 0 if call in procfs.READING else last.taken_bytes - then.taken_bytes
    return max(0, received) + max(0, taken)


def _inode(key: str) -> int:
    """0 of what is no socket."""
    found = _SOCKET.fullmatch(key)
    return int(found[1]) if found else 0
