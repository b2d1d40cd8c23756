"""Is it really stuck? From rates and stacks over time, and from how long this job has paused before; never from one look."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from ...language import text
from ...model import NotAvailable
from ...words.durations import time_words
from ...words.ranks import ranks_words
from .ranks import View
from .words import alike

__all__ = ["Progress", "allowed_s", "judge"]

FACTOR, SLACK_S = 1.5, 0.5
"""A pause counts as too long at this many times the longest one before, and so many seconds more."""
ENOUGH_GAPS, LAST_CALLS, WARM_UP_CALLS = 3, 400, 2
RANKS_ASKED = 64
"""Of so many ranks the history is read: the ranks of a job pause together."""


@dataclass(frozen=True)
class Progress:
    """``moves_on``: steps, backward passes or collectives came during the look. ``overdue``: the job stands still, and for longer than ever
    before as far as is known. ``pause_s``: for how long; ``longest_s``: the longest pause that it got over before. None: not known.
    """

    moves_on: bool
    overdue: bool
    pause_s: float | None
    longest_s: float | None
    why: tuple[str, ...]


def allowed_s(longest_s: float) -> float:
    """How long a job may stand still that has got over a pause of `longest_s` before."""
    return FACTOR * longest_s + SLACK_S


def judge(views: Sequence[View], *, once: bool = False) -> Progress:
    """Whether the job moves on, and whether it has stood still for longer than is usual for it. `once`: nothing tells whether it moves."""
    pause, longest = _pause_s(views), _longest_pause_s(views)
    came = _what_came(views)
    if came:
        return Progress(True, False, pause, longest, (came,))
    why = [_once()] if once else _what_ranks_do(views)
    if pause is None or longest is None:
        return Progress(False, True, pause, longest, tuple(why))
    overdue = pause > allowed_s(longest)
    ever = (
        text(
            "nothing new for {pause}; before, this job never paused for more than {longest}",
            pause=time_words(pause),
            longest=time_words(longest),
        )
        if overdue
        else text(
            "nothing new for {pause}, but it has paused for {longest} before and gone on",
            pause=time_words(pause),
            longest=time_words(longest),
        )
    )
    return Progress(False, overdue, pause, longest, (*why, ever))


def _what_came(views: Sequence[View]) -> str:
    """Steps, else backward passes, else collectives, that came during the look; empty where none did."""
    steps = {v.rank: v.pace.steps_in_window for v in views if v.role == "stepping" and v.pace is not None}
    if steps:
        words = ranks_words(steps)
        return text("{words}: up to {values} steps during the look", words=words, values=max(steps.values()))
    passes = {v.rank: v.passes for v in views if v.passes}
    if passes:
        words = ranks_words(passes)
        return text(
            "{words}: up to {values} backward passes during the look, and no step",
            words=words,
            values=max(passes.values()),
        )
    calls = {v.rank: n for v in views if isinstance(n := v.evidence.calls_in_window, int) and n > 0}
    if calls:
        words = ranks_words(calls)
        return text(
            "{words}: up to {values} collectives issued during the look", words=words, values=max(calls.values())
        )
    return ""


def _what_ranks_do(views: Sequence[View]) -> list[str]:
    said = {
        "waiting": text("waiting for other ranks at every look"),
        "still": text("at the same place at every look"),
        "stopped": text("stopped"),
        "ended": text("ended"),
        "not seen": text("not seen on this host"),
    }
    by_view = {"moving": _of_moving, "idle": _of_idle}
    told = [(v.rank, by_view[v.role](v) if v.role in by_view else said.get(v.role)) for v in views]
    return [
        text("{rank}: {g}", rank=ranks_words((rank for rank, _ in g)), g=g[0][1])
        for g in alike([one for one in told if one[1]], lambda one: one[1])
    ]


def _once() -> str:
    return text("each process was seen once: where it was is known, and not whether it moves")


def _of_idle(view: View) -> str:
    return text("no call of Ray's ran at any look") if view.has_no_call else text("its kernel ran no cell at any look")


def _of_moving(view: View) -> str:
    if view.now.kind == "gpu":
        return text("waiting for the GPU at every look")
    if view.served:
        return text("waiting for something of its own that gets on")
    return text("computing, or at another place at every look")


def _pause_s(views: Sequence[View]) -> float | None:
    """How long nothing new has come: the oldest open call of a waiting rank, else the time since the last step."""
    waits = [v.waiting_s for v in views if v.role == "waiting" and v.waiting_s is not None]
    if waits:
        return max(waits)
    since = [v.pace.since_last_s for v in views if v.pace is not None and v.pace.since_last_s is not None]
    return min(since) if since else None


def _longest_pause_s(views: Sequence[View]) -> float | None:
    """The longest pause between two calls, or two steps, that this job got over before.

    Without its first calls (start-up compiles and builds), and of the rest the second longest: one outlier is no habit.
    """
    found: list[float] = []
    for view in views[:RANKS_ASKED]:
        if view.pace is not None:
            found += sorted(view.pace.recent_s)[-2:-1]
        gaps = _gaps_s(view)
        if len(gaps) >= ENOUGH_GAPS:
            found.append(gaps[-2])
    return max(found) if found else None


def _gaps_s(view: View) -> list[float]:
    """Between one call and the next, the shortest first."""
    records = view.collectives
    if records is None:
        return []
    times = sorted(t for c in records.calls[-LAST_CALLS:] if not isinstance(t := c.issued_s, NotAvailable))
    times = times if records.capacity_reached else times[WARM_UP_CALLS:]
    return sorted(b - a for a, b in itertools.pairwise(times))
