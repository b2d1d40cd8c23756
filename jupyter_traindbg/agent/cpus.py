"""How many CPUs this process may use, and for how long its control groups were held back because they had used up theirs."""

from __future__ import annotations

import os
from typing import Iterator, List, Optional, Tuple

PROC, GROUPS = "/proc/self/cgroup", "/sys/fs/cgroup"


def allowed() -> Optional[float]:
    """The least of the CPUs that it may run on and of the quotas of its control groups, which may be fractions; None where nobody knows."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    known = [] if affinity is None else [float(affinity)]
    for folder in _folders():
        known += _quota(folder)
    return min(known, default=None)


def throttled_s() -> float:
    """Seconds, since these groups were made, that the one held back most has been; all its CPUs together. 0 where there is no quota."""
    return max((seconds for folder in _folders() for seconds in _throttled(folder)), default=0.0)


def _folders() -> Iterator[str]:
    """Where the files of its groups would be, of version 2 and of version 1, and those of the groups round them; in a container they may be
    nearer to the root.
    """
    for line in _text(PROC).splitlines():
        number, controllers, path = line.split(":", 2)
        bases = (GROUPS, os.path.join(GROUPS, "unified")) if number == "0" else (os.path.join(GROUPS, "cpu"),)
        words = [word for word in path.split("/") if word]
        if ".." in words or (number != "0" and "cpu" not in controllers.split(",")):
            continue
        for base in bases:
            yield from (os.path.join(base, *words[:n]) for n in range(len(words), -1, -1))


def _quota(folder: str) -> List[float]:
    words = _text(os.path.join(folder, "cpu.max")).split()  # "max 100000": as many as there are
    if not words:
        words = [_text(os.path.join(folder, f"cpu.cfs_{name}_us")).strip() for name in ("quota", "period")]
    numbers = [int(word) for word in words if word.isdigit()]  # version 1 says -1 where there is none
    return [numbers[0] / numbers[1]] if len(numbers) == 2 and numbers[1] else []


def _throttled(folder: str) -> Iterator[float]:
    units: Tuple[Tuple[str, float], ...] = (("throttled_usec", 1e6), ("throttled_time", 1e9))
    told = dict(line.split(" ", 1) for line in _text(os.path.join(folder, "cpu.stat")).splitlines() if " " in line)
    yield from (int(told[name]) / unit for name, unit in units if name in told)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as f:
            return f.read()
    except OSError:  # there is no such group, or no such version
        return ""
