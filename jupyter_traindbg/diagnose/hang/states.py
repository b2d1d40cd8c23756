"""The answer to "is it really stuck?", and one line on every rank. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal

from ...language import text
from ...model import Finding, RankState
from ...words.durations import time_words
from ...words.ranks import ranks_words
from .. import soundness
from ..located import several_hosts
from .case import Case, Role, View, joins_ray
from .doing import phrase
from .motion import work_words
from .phase import in_phase
from .words import place

__all__ = ["rank_states", "state"]

State = Literal["stuck", "failed", "unsound", "slow", "progressing", "healthy", "idle", "ended", "not known"]
_NOT_STUCK = soundness.NO_HANG | {
    "straggler",
    "cpu_phase",
    "swapping",
    "environment",
    "shm_full",
    "disk_full",
    "dataloader_wait",
}
"""Findings of which none says that the job is stuck."""
_SLOWS = soundness.SLOWS | {"straggler", "swapping", "dataloader_wait"}
"""Findings that say why a job that gets on does so slowly."""


def state(case: Case, findings: Sequence[Finding]) -> tuple[State, list[str]]:
    """What to call the job, and by what that was judged."""
    codes = {f.code for f in findings}
    why = list(case.progress.why)
    troubled = _trouble(case, findings, codes)
    if case.seen_once and troubled != "failed" and not case.over:
        return "not known", why
    if troubled:
        return troubled, why
    if case.over:
        return "ended", why
    slow = not codes.isdisjoint(_SLOWS)
    if at_ease := case.roles("stepping", "idle"):
        calm: State = "idle" if at_ease[0].role == "idle" else "healthy" if not codes else "progressing"
        return ("slow" if slow else calm), why
    if not any(v.doings for v in case.views):
        return "not known", [*why, _nobody(case.evidence.launcher_running_s)]
    called, more = _of_those_seen(case, findings)
    return ("slow" if slow and called == "progressing" else called), [*why, *more]


def _of_those_seen(case: Case, findings: Sequence[Finding]) -> tuple[State, list[str]]:
    """Of a job that makes no steps: whether it moves, stands still, or waits for what has its time."""
    busy = case.roles("moving")
    if busy:
        unclear = case.overdue and all(v.now.kind == "gpu" for v in busy)  # with a history, there would be a finding
        return ("not known", [_ends_or_not()]) if unclear else ("progressing", _phases(busy))
    if case.stands_still and not _workers_get_on(findings):
        return "stuck", []
    has_time = [_at_ray(v) for v in case.at_ray[:1]] + [_gathering(v) for v in case.gathering[:1]]
    return ("not known" if case.overdue and has_time else "progressing"), has_time


def _trouble(case: Case, findings: Sequence[Finding], codes: AbstractSet[str]) -> State | None:
    """What the findings alone say of the job; None where they leave it to what its ranks do."""
    critical = {f.code for f in findings if f.severity == "critical"}
    if "rank_ended" in critical or ("host_unreachable" in critical and case.roles("ended")):
        return "failed"
    if any(f.severity == "critical" and f.code not in _NOT_STUCK for f in findings):
        return "stuck"
    gets_on = not case.overdue or case.roles("moving")
    return "unsound" if gets_on and not codes.isdisjoint(soundness.UNSOUND) else None


def _workers_get_on(findings: Sequence[Finding]) -> bool:
    """A rank stands still before its DataLoader, whose workers do not."""
    return any(f.code == "dataloader_wait" and f.severity == "warning" for f in findings)


def _phases(busy: Sequence[View]) -> list[str]:
    """``rank 0: saving or loading a checkpoint``: what the others of a healthy job may be waiting for."""
    named: dict[str, list[int]] = {}
    for view in busy:
        for words in filter(None, (in_phase(view), *map(work_words, view.served))):
            named.setdefault(words, []).append(view.rank)
    return [text("{ranks}: {phase}", ranks=ranks_words(ranks), phase=phase) for phase, ranks in named.items()]


def _ends_or_not() -> str:
    return text(
        "no step came in this time, so whether what the GPU does ever ends is not known: ask again in a "
        "minute, and see `traindbg gpu`"
    )


def _gathering(view: View) -> str:
    if view.now.kind == "teardown":
        return text("all that are left of it are closing their process groups, which may take a minute: ask again then")
    return text(
        "all ranks are on their way into a process group together, which may take a minute where there "
        "are many: ask again then"
    )


def _at_ray(view: View) -> str:
    if joins_ray(view.now):
        return text("it is in ray.init(), which may take a minute and gives up by itself: ask again then")
    return text(
        "it waits for a result from Ray, and its workers are not seen in this process: `traindbg "
        "diagnose ray:auto` asks them"
    )


def _nobody(launcher_running_s: float | None) -> str:
    if launcher_running_s is None:
        return text("no rank could be looked at")
    since = time_words(launcher_running_s)
    return text(
        "the launcher has run for {since} and has no ranks; they may still be starting: ask again in a moment",
        since=since,
    )


def rank_states(case: Case) -> tuple[RankState, ...]:
    """All ranks, in order."""
    told = several_hosts(case.places)
    return tuple(_rank_state(v, v.evidence.host if told else "") for v in sorted(case.views, key=lambda v: v.rank))


def _rank_state(view: View, host: str) -> RankState:
    pace = view.pace
    return RankState(
        view.rank,
        view.pid,
        _word(view),
        _line(view),
        place(view.now.frame),
        pace.optimizer_step if pace is not None else None,
        view.waiting_s if view.role == "waiting" else None,
        host=host,
    )


def _word(
    view: View,
) -> Literal["stepping", "computing", "waiting", "stopped", "ended", "starting", "idle", "not seen", "not known"]:
    if view.role == "moving":
        return "computing"
    if view.role == "still":
        return "waiting"
    if view.role == "waiting":
        begun = view.collectives is not None and any(g.last_completed for g in view.collectives.groups)
        return "starting" if view.now.kind == "init" and not begun else "waiting"
    return view.role


def _line(view: View) -> str:
    return _LINES[view.role](view)


def _waits(view: View) -> str:
    if view.pending is None:
        return phrase(view.now)
    name = f"{view.pending.op} #{view.pending.sequence}"
    return text("waits in {name}", name=name)


def _stands(view: View) -> str:
    if joins_ray(view.now):
        return in_phase(view)
    return phrase(view.now) if view.holder is None else text("a C call keeps the GIL")


def _ended(view: View) -> str:
    ending = view.evidence.ending
    if ending is not None and isinstance(ending.signal, str):
        return text("killed by {signal}", signal=ending.signal)
    if ending is not None and isinstance(ending.exit_code, int):
        return text("exit status {exit_code}", exit_code=ending.exit_code)
    return text("gone")


def _at_rest(view: View) -> str:
    if view.has_no_call:
        return text("runs no call")
    return text("the kernel runs no cell but the one that asks") if view.asks_us else text("the kernel runs no cell")


_LINES: Mapping[Role, Callable[[View], str]] = {
    "ended": _ended,
    "not known": lambda view: view.evidence.problem or text("nothing could be read"),
    "not seen": lambda view: text("there is no process of it here"),
    "stopped": lambda view: text("stopped: the kernel does not let it run"),
    "idle": _at_rest,
    "stepping": lambda view: text("makes steps"),
    "moving": lambda view: in_phase(view) or phrase(view.now),
    "waiting": _waits,
    "still": _stands,
}
