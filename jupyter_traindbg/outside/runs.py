"""How often the kernel has given a thread a CPU, and since when it has not: what tells standing still from coming by. Reads /proc only."""

from __future__ import annotations

import contextlib
import os
import time

from . import procfs

__all__ = ["UNKNOWN", "Clocks", "count"]

UNKNOWN = -1.0
"""Since when a thread has stood still is not known."""


def count(pid: int, tid: int) -> int | None:
    """How often thread `tid` has been given a CPU; None where this kernel does not count it, or the thread has ended."""
    fine = procfs.text(f"/proc/{pid}/task/{tid}/schedstat").split()
    if len(fine) == 3:
        return int(fine[2])
    status = procfs.fields(f"/proc/{pid}/task/{tid}/status")
    counts = [int(value) for name, value in status.items() if name.endswith("_ctxt_switches")]
    return sum(counts) if counts else None


class Clocks:
    """The scheduler's clock of each CPU, during one look. Each leaves out what a hypervisor took: two may be a minute apart."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[float, float] | None] = {}

    def still_s(self, folder: str, least_s: float) -> float:
        """Of a thread that has not run for `least_s`, with its folder in /proc: since when, as the scheduler has it, or `UNKNOWN`."""
        theirs = _last_ran_ms(folder)
        if theirs is None:
            return least_s
        now = self.now_ms(_cpu_of(folder))
        if theirs <= 0 or now is None:
            return UNKNOWN  # the kernel forgets it where it moves a sleeping thread to another CPU
        return max(least_s, (now - theirs) / 1000)

    def now_ms(self, cpu: int | None) -> float | None:
        """None where this thread may not run on that CPU, or the kernel does not tell."""
        if cpu is None:
            return None
        if cpu not in self._known:
            self._known[cpu] = _read_clock(cpu)
        known = self._known[cpu]
        return None if known is None else known[0] + (time.monotonic() - known[1]) * 1000


def _read_clock(cpu: int) -> tuple[float, float] | None:
    """What that clock shows, in milliseconds, and when: we run there for a moment ourselves."""
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {cpu})
        ran_ms = _last_ran_ms("/proc/thread-self")
        return None if ran_ms is None else (ran_ms, time.monotonic())
    except OSError:
        return None
    finally:
        with contextlib.suppress(OSError):  # somebody has taken CPUs away meanwhile: the kernel has seen to it
            os.sched_setaffinity(0, allowed)


def _cpu_of(folder: str) -> int | None:
    """The CPU that a thread last ran on."""
    fields = procfs.text(f"{folder}/stat").rpartition(")")[2].split()
    return int(fields[36]) if len(fields) > 36 else None


def _last_ran_ms(folder: str) -> float | None:
    for line in procfs.text(f"{folder}/sched").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "se.exec_start":
            with contextlib.suppress(ValueError):
                return float(value)
    return None
