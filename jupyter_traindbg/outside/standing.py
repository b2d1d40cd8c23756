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
from . import procfs, runs
from . import stacks as outside

__all__ = ["look"]

PARALLEL = 8
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
    clocks = runs.Clocks()
    return {pid: _join(pid, before[pid], seen[pid], clocks) for pid in wanted}


def _stacks(pid: int, ends: float) -> ProcessStacks:
    return outside.dump(pid, deadline_s=max(0.01, ends - time.monotonic()), children=False)[0]


class _Counters:
    """Of a process at one moment: CPU time, and of each thread how often it has been given a CPU."""

    def __init__(self, at_s: float, cpu_s: float, runs: dict[int, int]) -> None:
        self.at_s, self.cpu_s, self.runs = at_s, cpu_s, runs


def _counters(pid: int, tids: Sequence[int] | None = None) -> _Counters | None:
    fields = procfs.text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if not fields:
        return None
    cpu_s = (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
    if tids is None:
        with contextlib.suppress(OSError):
            tids = [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    given = {tid: runs.count(pid, tid) for tid in tids or ()}
    return _Counters(time.monotonic(), cpu_s, {tid: n for tid, n in given.items() if n is not None})


def _join(
    pid: int, before: _Counters | None, seen: ProcessStacks | TraindbgError, clocks: runs.Clocks
) -> RayLook | TraindbgError:
    if isinstance(seen, TraindbgError):
        return seen
    tids = [thread.tid for thread in seen.threads if isinstance(thread.tid, int)]
    after = _counters(pid, tids)
    if before is None or after is None:
        return TargetGone(text("process {pid} has just ended", pid=pid))
    window_s = max(1e-3, after.at_s - before.at_s)
    still = {
        tid: clocks.still_s(f"/proc/{pid}/task/{tid}", window_s) if before.runs[tid] == after.runs[tid] else 0.0
        for tid in tids
        if tid in after.runs and tid in before.runs
    }
    cpu_share = max(0.0, after.cpu_s - before.cpu_s) / window_s
    return RayLook(seen, window_s, still, cpu_share, procfs.rss_bytes(pid))
