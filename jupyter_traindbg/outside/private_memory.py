"""What processes have for themselves, and by how much that grows: pages that are shared with a parent until somebody writes to them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from . import procfs

__all__ = ["Growth", "growth", "private_bytes"]

EVERY_S = 0.05
LEAST_READINGS = 4
WORTH_BYTES = 2**20
"""What rises less while it is looked at does not grow."""
CONFIRMED, EVEN = 8, 0.2
"""So many times as long it is looked where something seems to grow; and the share of the mean rise of a third that each has to have."""


def private_bytes(pid: int) -> int | None:
    """Of ``/proc/PID/smaps_rollup``; None where it is gone or not ours to look at. 20 us a MiB of what it has."""
    fields = procfs.fields(f"/proc/{pid}/smaps_rollup")
    told = [fields[name].split() for name in ("Private_Clean", "Private_Dirty") if name in fields]
    return sum(int(words[0]) for words in told) * 1024 if told else None


class Growth(NamedTuple):
    """``private_bytes`` now; how many more ``a_second``, 0 where the later half is not above the earlier one; whether it rose
    ``evenly``, in the ``watched_s`` that it was looked at.
    """

    private_bytes: int
    a_second: float = 0.0
    evenly: bool = False
    watched_s: float = 0.0


def growth(pids: Sequence[int], window_s: float) -> Mapping[int, Growth]:
    """By pid. Reads for `window_s`, and at least `LEAST_READINGS` times; where some seem to grow, eight times as long. Those that end
    meanwhile are left out.
    """
    readings: dict[int, list[int]] = {pid: [] for pid in pids}
    began = time.monotonic()
    _read(readings, began + window_s)
    if any(map(_rise, readings.values())):
        _read(readings, began + CONFIRMED * window_s)
    took_s = max(EVERY_S, time.monotonic() - began)
    return {
        pid: Growth(seen[-1], _rise(seen) / took_s, _is_even(seen), took_s) for pid, seen in readings.items() if seen
    }


def _read(readings: dict[int, list[int]], ends: float) -> None:
    while readings:
        for pid in list(readings):
            now = private_bytes(pid)
            if now is None:
                del readings[pid]
            else:
                readings[pid].append(now)
        enough = min(map(len, readings.values()), default=0) >= LEAST_READINGS
        if enough and time.monotonic() >= ends:
            return
        time.sleep(EVERY_S)


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
