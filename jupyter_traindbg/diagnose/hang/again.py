"""Whether a second look would tell more than the first, when it should be taken, and both looks as one evidence. Pure functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ...model import (
    Activity,
    Finding,
    JobEvidence,
    Look,
    Maybe,
    NotAvailable,
    OpenFile,
    Pace,
    RankCollectives,
    RankEvidence,
)
from .case import Case
from .stuck import allowed_s

__all__ = ["over_time", "settles_in_s"]

_REST_ON_WAITS = frozenset(
    {"cpu_phase", "dataloader_wait", "dataloader_worker_stuck", "gil_held", "hang_unexplained", "init_incomplete", "io_wait", "lock_wait",
     "process_deadlock", "python_wait", "thread_deadlock", "uninterruptible"}
)  # fmt: skip
"""Findings that say no more than that something lasts; without a history, how long is too long is not known."""
WITHOUT_HISTORY_S = 2.0
MARGIN_S = 0.3


def settles_in_s(case: Case, findings: Sequence[Finding]) -> float | None:
    """After how many seconds another look would settle what this one leaves open; None where it leaves nothing open."""
    if case.roles("stepping") or any(f.severity == "critical" and f.code not in _REST_ON_WAITS for f in findings):
        return None
    progress = case.progress
    if progress.pause_s is None or progress.longest_s is None:
        at_the_gpu = any(v.now.kind == "gpu" for v in case.suspects)
        steps_counted = any(v.pace is not None for v in case.roles("moving"))  # since a moment ago: one may come yet
        open_still = at_the_gpu or steps_counted or case.gathering or any(f.code in _REST_ON_WAITS for f in findings)
        return WITHOUT_HISTORY_S if open_still else None
    if progress.moves_on or progress.overdue or not (case.waiting or case.roles("still")):
        return None
    return max(0.0, allowed_s(progress.longest_s) - progress.pause_s) + MARGIN_S


def over_time(first: JobEvidence, second: JobEvidence, *, later_s: float) -> JobEvidence:
    """Both as one: the second's facts, the looks of both, and whatever came between.

    `later_s`: from the first's beginning to the second's.
    """
    before = {(r.rank, r.pid): r for r in first.ranks}
    ranks = [_both(before.get((r.rank, r.pid)), r, later_s) for r in second.ranks]
    return dataclasses.replace(
        second, ranks=tuple(ranks), sources={**first.sources, **second.sources}, taken_s=later_s + second.taken_s
    )


def _both(first: RankEvidence | None, second: RankEvidence, later_s: float) -> RankEvidence:
    if first is None:
        return second
    later = (Look(look.at_s + later_s, look.processes) for look in second.looks)
    return dataclasses.replace(
        second,
        looks=(*first.looks, *later),
        activity=_activities(first.activity, second.activity),
        children=_children(first.children, second.children),
        pace=_paces(first.pace, second.pace),
        calls_in_window=_calls(first, second),
    )


def _activities(first: Maybe[Activity], second: Maybe[Activity]) -> Maybe[Activity]:
    """The second, with the files from the beginning of the first on."""
    if isinstance(first, NotAvailable) or isinstance(second, NotAvailable):
        return second
    before = {(f.path, f.mode): f for f in first.files}
    return dataclasses.replace(second, files=tuple(_file(before.get((f.path, f.mode)), f) for f in second.files))


def _file(first: OpenFile | None, second: OpenFile) -> OpenFile:
    if first is None or second.began < first.position:
        return second  # it was opened again, and what came before is another file
    known = first.to_disk is not None and second.to_disk is not None
    to_disk = (first.to_disk or 0) + (second.to_disk or 0) if known else None
    return dataclasses.replace(second, began=first.began, to_disk=to_disk)


def _children(first: Sequence[Activity], second: Sequence[Activity]) -> tuple[Activity, ...]:
    before = {a.pid: a for a in first}
    joined = (_activities(before.get(a.pid, a), a) for a in second)
    return tuple(a for a in joined if isinstance(a, Activity))


def _paces(first: Maybe[Pace], second: Maybe[Pace]) -> Maybe[Pace]:
    if isinstance(first, NotAvailable) or isinstance(second, NotAvailable):
        return second
    return dataclasses.replace(
        second,
        steps_in_window=first.steps_in_window + max(0, second.steps - first.steps),
        gpu_busy=first.gpu_busy and second.gpu_busy,
    )


def _calls(first: RankEvidence, second: RankEvidence) -> Maybe[int]:
    """Those within the first window, and all since."""
    if not (isinstance(first.collectives, RankCollectives) and isinstance(second.collectives, RankCollectives)):
        return second.calls_in_window
    then = {g.name: g.last_issued or 0 for g in first.collectives.groups}
    since = sum(max(0, (g.last_issued or 0) - then.get(g.name, 0)) for g in second.collectives.groups)
    within = first.calls_in_window if isinstance(first.calls_in_window, int) else 0
    return within + since
