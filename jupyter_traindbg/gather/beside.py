"""What processes do over a short window, seen from outside alone: stacks at its two ends, /proc between them. Nothing enters them.

For workers of which there may be hundreds and of which few are in trouble. Runs on the machine that the processes run on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ..attach.base import clusters_below
from ..errors import DeadlineExceeded, TraindbgError
from ..language import text
from ..model import Activity, JobEvidence, Look, NotAvailable, ProcessStacks, RankEvidence, Thread
from ..outside import activity, procfs, sources
from ..outside import stacks as outside
from ..tasks import each

__all__ = ["watch"]

WINDOW_S = 1.0
AT_ONCE = 4
LOOK_S = 2.0
_NOT_ENTERED = NotAvailable("looked at from outside only")


def watch(pids: Sequence[int], window_s: float = WINDOW_S, deadline_s: float = 5.0) -> JobEvidence:
    """Two looks at each of `pids`, `window_s` apart, what they and the processes below them did meanwhile, and the lines they stand at.

    Takes the window and 50 ms a process on a busy machine; at the deadline it answers with what is there. Raises nothing of its own: a
    process that cannot be looked at has no looks, and `problem` says why.
    """
    began = time.monotonic()
    ends = began + deadline_s
    wanted = list(dict.fromkeys(pids))
    first = _looks(wanted, began, began + 0.4 * deadline_s)
    below = _below(wanted)
    window_s = min(window_s, max(0.1, 0.4 * (ends - time.monotonic())))
    seen = activity.watch([*wanted, *(p for many in below.values() for p in many)], window_s)
    second = _looks(wanted, began, ends)
    found = [_evidence(n, pid, (first[pid], second[pid]), seen, below[pid]) for n, pid in enumerate(wanted)]
    stacks = [process for rank in found for look in rank.looks for process in look.processes]
    return JobEvidence(
        "beside", tuple(found), len(found), sources=sources.read(stacks), taken_s=time.monotonic() - began
    )


def _looks(pids: Sequence[int], began: float, ends: float) -> Mapping[int, Look | str]:
    """By pid its stacks, or why there are none."""
    seen = each(pids, _look(began, ends), ends - time.monotonic(), at_once=AT_ONCE)
    return {pid: look.cause if isinstance(look, TraindbgError) else look for pid, look in seen}


def _look(began: float, ends: float) -> Callable[[int], Look]:
    def look(pid: int) -> Look:
        now = time.monotonic()
        if now > ends - 0.05:
            raise DeadlineExceeded(text("it was not looked at in time"))
        process = outside.dump(pid, deadline_s=min(LOOK_S, ends - now), children=False)[0]
        return Look(now - began, (_with_the_worker_thread(process),))

    return look


def _with_the_worker_thread(process: ProcessStacks) -> ProcessStacks:
    """Marked as the thread that counts: the main one, but where it only serves, the first of Ray's or Ray Train's with code of the user."""
    main = next((t for t in process.threads if t.tid == process.pid), None)
    works = main if main is not None and _is_users(main) else next(filter(_runs_a_method, process.threads), main)
    if works is None:
        return process
    return replace(process, threads=tuple(replace(t, training=t is works) for t in process.threads))


def _is_users(thread: Thread) -> bool:
    return any(not frame.library for frame in thread.frames)


def _runs_a_method(thread: Thread) -> bool:
    return thread.name.startswith(("ray::", "TrainingThread")) and _is_users(thread)


def _below(pids: Iterable[int]) -> Mapping[int, Sequence[int]]:
    """The processes below each, without the cluster that a driver has started itself: that is everybody's."""
    table = procfs.processes()
    return {pid: [p.pid for p in procfs.descendants(pid, table, apart=clusters_below([pid], table))] for pid in pids}


def _evidence(
    number: int, pid: int, looks: Iterable[Look | str], seen: Mapping[int, Activity], below: Sequence[int]
) -> RankEvidence:
    good = [look for look in looks if isinstance(look, Look)]
    problems = [look for look in looks if isinstance(look, str)]
    return RankEvidence(
        rank=number,
        world_size=1,  # of no group of ranks, as far as is known here
        local_rank=number,
        pid=pid,
        host="",
        looks=tuple(good),
        activity=seen.get(pid, NotAvailable("the process is gone")),
        children=tuple(seen[p] for p in below if p in seen),
        pace=_NOT_ENTERED,
        collectives=_NOT_ENTERED,
        calls_in_window=_NOT_ENTERED,
        environ=_NOT_ENTERED,
        joining=_NOT_ENTERED,
        making=_NOT_ENTERED,
        problem=problems[0] if problems and not good else _NOT_ENTERED.reason,
    )
