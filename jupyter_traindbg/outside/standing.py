"""Whether threads move or stand still: their stacks, between two readings of how often each was given a CPU. No help from the process.

One look at a stack cannot tell a worker that is stuck at a line from one that comes by there a hundred times a second. But a thread that
the kernel has not run between two moments is at one place at both and all the time between: what a look in the middle sees is exact.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Sequence

from ..errors import TargetGone, TraindbgError
from ..language import text
from ..model import ProcessStacks, RayLook
from ..tasks import each
from . import procfs
from . import stacks as outside

__all__ = ["look"]

PARALLEL = 8
UNKNOWN = -1.0
"""It stood still all the window long, and since when is not known."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def look(pids: Iterable[int], window_s: float = 0.4, deadline_s: float = 5.0) -> dict[int, RayLook | TraindbgError]:
    """What each of `pids` does, seen within one window that they share; in the order given, as far as `deadline_s` allows.

    10-25 ms a process, eight at a time, and the rest of the window. Where there is no answer, why.
    """
    wanted = list(dict.fromkeys(pids))
    began = time.monotonic()
    ends = began + deadline_s
    before = {pid: _counters(pid) for pid in wanted}
    seen = dict(each(wanted, lambda pid: _stacks(pid, ends), deadline_s, at_once=PARALLEL))
    time.sleep(max(0.0, began + window_s - time.monotonic()))
    clocks = _Clocks()
    return {pid: _join(pid, before[pid], seen[pid], clocks) for pid in wanted}


def _stacks(pid: int, ends: float) -> ProcessStacks:
    return outside.dump(pid, deadline_s=max(0.01, ends - time.monotonic()), children=False)[0]


class _Counters:
    """Of a process at one moment: CPU time, and of each thread how often it has been given a CPU."""

    def __init__(self, at_s: float, cpu_s: float, runs: dict[int, int]) -> None:
        self.at_s, self.cpu_s, self.runs = at_s, cpu_s, runs


def _counters(pid: int, tids: Sequence[int] | None = None) -> _Counters | None:
    fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if not fields:
        return None
    cpu_s = (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
    if tids is None:
        with contextlib.suppress(OSError):
            tids = [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    runs = {tid: _runs(pid, tid) for tid in tids or ()}
    return _Counters(time.monotonic(), cpu_s, {tid: n for tid, n in runs.items() if n is not None})


def _runs(pid: int, tid: int) -> int | None:
    """None where this kernel does not count it, or the thread has ended."""
    fine = _text(f"/proc/{pid}/task/{tid}/schedstat").split()
    if len(fine) == 3:
        return int(fine[2])
    counts = [
        line.split()[1] for line in _text(f"/proc/{pid}/task/{tid}/status").splitlines() if "_ctxt_switches:" in line
    ]
    return sum(map(int, counts)) if counts else None


def _join(
    pid: int, before: _Counters | None, seen: ProcessStacks | TraindbgError, clocks: _Clocks
) -> RayLook | TraindbgError:
    if isinstance(seen, TraindbgError):
        return seen
    tids = [thread.tid for thread in seen.threads if isinstance(thread.tid, int)]
    after = _counters(pid, tids)
    if before is None or after is None:
        return TargetGone(text("process {pid} has just ended", pid=pid))
    window_s = max(1e-3, after.at_s - before.at_s)
    still = {
        tid: _still_s(f"/proc/{pid}/task/{tid}", window_s, clocks) if before.runs[tid] == after.runs[tid] else 0.0
        for tid in tids
        if tid in after.runs and tid in before.runs
    }
    cpu_share = max(0.0, after.cpu_s - before.cpu_s) / window_s
    return RayLook(seen, window_s, still, cpu_share, procfs.rss_bytes(pid))


def _still_s(folder: str, window_s: float, clocks: _Clocks) -> float:
    """Of a thread that did not run within the window: since when, as the scheduler has it; at least the window."""
    theirs = _last_ran_ms(folder)
    if theirs is None:
        return window_s
    now = clocks.now_ms(_cpu_of(folder))
    if theirs <= 0 or now is None:
        return UNKNOWN  # the kernel forgets it where it moves a sleeping thread to another CPU
    return max(window_s, (now - theirs) / 1000)


class _Clocks:
    """The scheduler's clock of each CPU, during one look. Each leaves out what a hypervisor took: two may be a minute apart."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[float, float] | None] = {}

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
    fields = _text(f"{folder}/stat").rpartition(")")[2].split()
    return int(fields[36]) if len(fields) > 36 else None


def _last_ran_ms(folder: str) -> float | None:
    for line in _text(f"{folder}/sched").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "se.exec_start":
            with contextlib.suppress(ValueError):
                return float(value)
    return None


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read()
    except OSError:
        return ""
