"""The same window over all ranks of a job that steps: what each one's time goes to, from inside and outside at once.

0 s      the agents go into all ranks that have none, side by side
~1 s     each agent looks at its training thread until so many steps have passed; beside it /proc is read twice, and py-spy watches that
         thread and the DataLoader workers, one call for all of a rank
after    what the flight recorders say of the same time, and the lines at which the ranks were seen
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from .. import evidence, evidence_collectives, evidence_slow
from ..attach.base import Link, ask_all, introduce
from ..errors import TraindbgError
from ..model import (
    Activity,
    Frame,
    Maybe,
    NotAvailable,
    ProcessLooks,
    ProcessStacks,
    RankCollectives,
    RankWindow,
    Silent,
    SourceLine,
    Step,
    Thread,
)
from ..outside import procfs, profiles
from ..tasks import Task
from . import stacks
from .clocks import Clock, calls_by_our_clock
from .whole_job import activities

__all__ = ["LEAST_S", "Asked", "Window", "gather", "one_window"]

LEAST_S = 2.0
"""Shorter than this no window is: shares of less than a hundred looks say little."""
AFTER_S = 3.0
"""What follows the window may take so long."""
LATE_S = 2.0
CALLS = 600
"""So many of the latest collectives of each group."""
PAST = 2000
"""So many recorded steps from before the window are compared with it."""
MOST_PROFILED = 8
"""Of so many ranks the training thread and workers are watched from outside; those that have workers first."""


@dataclass(frozen=True)
class Asked:
    """`steps` whole ones are wanted, within `window_s` seconds; all of it ends within `timeout_s`."""

    steps: int
    window_s: float
    timeout_s: float


@dataclass(frozen=True)
class Window:
    """What came of it: who answered and who did not, and the lines at which they were seen, by ``"FILE:LINE"``."""

    ranks: Sequence[RankWindow]
    silent: Sequence[Silent]
    lines: Mapping[str, SourceLine]


@dataclass
class _Beside:
    """What is looked at from outside meanwhile, until `over`."""

    over: threading.Event = field(default_factory=threading.Event)
    counters: Task[dict[int, list[Activity]]] | None = None
    profiled: Mapping[int, Task[list[ProcessLooks]]] = field(default_factory=dict)


def gather(links: Sequence[Link], asked: Asked) -> Window:
    """Watch all ranks behind `links`, which are on this host, over one window. Brings agents in. Raises why, where nobody answers."""
    ends = time.monotonic() + asked.timeout_s
    introduce(links)
    running = [link for link in links if link.ended() is None]
    _enter(links, asked, ends)
    before = {link.pid: _below(link) for link in running}
    beside = _Beside()
    beside.counters = Task(lambda: activities(running, min(LEAST_S, asked.window_s)), "activity")
    first = sorted(running, key=lambda link: not before[link.pid])[:MOST_PROFILED]
    beside.profiled = {link.pid: _profile(link, beside, asked) for link in first}
    try:
        answers = ask_all(links, lambda link: _look(link, asked, ends), max(0.1, ends - time.monotonic())).need_one()
    finally:
        beside.over.set()
    seen = [
        _with_outside(link, window, beside, before.get(link.pid, frozenset()), ends) for link, window in answers.answers
    ]
    return Window(tuple(seen), answers.silent, stacks.lines(_as_stacks(seen), ends))


def one_window(seen: Mapping[str, Window], clocks: Mapping[str, Clock], silent: Sequence[Silent] = ()) -> Window:
    """Those of all hosts as one, with the moments that ranks are compared by as our clock has them; without them where a host's clock is
    not known. `silent`: who else gave no answer.
    """
    ranks = [_by_our_clock(one, clocks.get(host)) for host, window in seen.items() for one in window.ranks]
    quiet = [one for window in seen.values() for one in window.silent]
    lines = {place: line for window in seen.values() for place, line in window.lines.items()}
    return Window(tuple(sorted(ranks, key=lambda one: (one.rank, one.pid))), (*quiet, *silent), lines)


def _by_our_clock(seen: RankWindow, clock: Clock | None) -> RankWindow:
    if clock is None:
        return replace(seen, collectives=NotAvailable("by what its host's clock is off is not known"))
    calls = calls_by_our_clock(seen.collectives, clock.ahead_s)
    return replace(seen, began_s=seen.began_s - clock.ahead_s, collectives=calls)


def _enter(links: Sequence[Link], asked: Asked, ends: float) -> None:
    """All of them, before the window opens, so that it is one for all. What cannot be entered says so when it is asked."""
    left_s = max(0.1, ends - asked.window_s - AFTER_S - time.monotonic())
    ask_all(links, lambda link: link.enter(left_s), left_s)


def _profile(link: Link, beside: _Beside, asked: Asked) -> Task[list[ProcessLooks]]:
    return Task(lambda: profiles.watch(link.pid, beside.over, asked.window_s), f"watched-{link.pid}")


def _below(link: Link) -> frozenset[int]:
    return frozenset(child.pid for child in procfs.descendants(link.pid, apart=link.others))


def _look(link: Link, asked: Asked, ends: float) -> RankWindow:
    """One rank's own answers. Raises why there is none."""
    if (gone := link.ended()) is not None:
        raise gone
    window_s = max(0.2, min(asked.window_s, ends - AFTER_S - time.monotonic()))
    least_s = min(LEAST_S, window_s)
    params = {"steps": asked.steps, "least_s": least_s, "window_s": window_s}
    answer = link.call("slow", params, min(window_s + LATE_S, max(0.1, ends - time.monotonic())))
    seen = replace(evidence_slow.window(link.rank, link.pid, answer), worker=link.worker)
    return replace(seen, past=_past(link, answer["first"], ends), collectives=_collectives(link, ends))


def _past(link: Link, first: int, ends: float) -> Sequence[Step]:
    """The steps from before the window, of this run."""
    try:
        answer = link.call("steps", {"last": PAST, "this_run": True, "deadline_s": 0.0}, _left_s(ends))
    except TraindbgError:
        return ()
    return tuple(step for step in evidence.steps(link.rank, link.pid, answer).steps if step.step <= first)


def _collectives(link: Link, ends: float) -> Maybe[RankCollectives]:
    try:
        answer = link.call("collectives", {"last": CALLS}, _left_s(ends))
    except TraindbgError as e:
        return NotAvailable(e.cause)
    return evidence_collectives.collectives(link.rank, link.pid, answer)


def _left_s(ends: float) -> float:
    return max(0.1, min(LATE_S, ends - time.monotonic()))


def _with_outside(link: Link, seen: RankWindow, beside: _Beside, before: frozenset[int], ends: float) -> RankWindow:
    counters = beside.counters.in_time(ends) if beside.counters is not None else None
    counted = (counters or {}).get(link.pid, [])
    watched = _watched(beside.profiled.get(link.pid), ends)
    workers: Maybe[Sequence[ProcessLooks]] = watched
    if not isinstance(watched, NotAvailable):
        workers = tuple(one for one in watched if one.pid != link.pid)
        seen = replace(seen, outside=next((one.stacks for one in watched if one.pid == link.pid), ()))
    return replace(
        seen,
        activity=counted[0] if counted else NotAvailable("it was not counted in time"),
        children=tuple(counted[1:]),
        workers=workers if before else (),
        workers_began=len(_below(link) - before),
    )


def _watched(task: Task[list[ProcessLooks]] | None, ends: float) -> Maybe[Sequence[ProcessLooks]]:
    if task is None:
        return NotAvailable("other ranks were watched from outside")
    try:
        seen = task.in_time(ends)
    except TraindbgError as e:
        return NotAvailable(e.cause)
    return NotAvailable("py-spy was not done in time") if seen is None else seen


def _as_stacks(windows: Sequence[RankWindow]) -> list[ProcessStacks]:
    """What was seen, for the reader of sources."""

    def one(pid: int, rank: int, seen: Sequence[Sequence[Frame]]) -> ProcessStacks:
        unknown = NotAvailable("of no one moment")
        return ProcessStacks(rank, pid, "rank", "agent", tuple(Thread("", pid, unknown, frames) for frames in seen))

    found = []
    for window in windows:
        found.append(one(window.pid, window.rank, window.stacks))
        workers = () if isinstance(window.workers, NotAvailable) else window.workers
        found += [one(w.pid, window.rank, [frames for frames, _ in w.stacks]) for w in workers]
        found.append(one(window.pid, window.rank, [frames for frames, _ in window.outside]))
    return found
