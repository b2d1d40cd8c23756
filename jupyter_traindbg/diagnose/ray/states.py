"""The answer to "is it really stuck?", and one line on every worker. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from ...language import later, text
from ...model import Finding, RankState, RayWorker
from ..hang.doing import phrase
from .case import ENDED, NOT_UP, RayCase, known
from .waits import leads
from .words import names

__all__ = ["rank_states", "state"]

State = Literal["stuck", "failed", "slow", "progressing", "healthy", "idle", "not known"]
_SLOW = frozenset(
    {"ray_startup_slow", "ray_straggler", "ray_too_many_for_cores", "ray_spilling", "ray_object_store_full"}
)
_Word = Literal["stopped", "idle", "ended", "waiting", "computing", "starting", "not known"]
_WORDS: Mapping[str, _Word] = {
    "dead": "ended",
    "ended": "ended",
    "blocked": "waiting",
    "waiting for an argument": "waiting",
    "running": "computing",
    "idle": "idle",
    "not known": "not known",
}


def state(case: RayCase, found: Sequence[Finding]) -> tuple[State, list[str]]:
    """What to call the job, and by what that was judged."""
    why = _why(case)
    codes = {f.code for f in found}
    if not case.running_jobs and "ray_job_failed" not in codes and (case.jobs or not case.rows):
        return "not known", [*why, text("no job of this cluster runs now")]
    unclear = not found or (codes == {"ray_worker_stuck"} and case.stands_still)
    called: State = "not known" if unclear else "progressing"
    if "ray_job_failed" in codes:
        called = "failed"
    elif any(f.severity == "critical" for f in found):
        called = "stuck"
    elif codes & _SLOW:
        called = "slow"
    elif case.moving:
        called = "progressing" if found else "healthy"
    elif case.views and all(r.kind == "driver" or _at_rest(r) for r in case.rows):
        called = "idle"
    elif case.views and unclear:
        why += [] if found else leads(case)
        why.append(text("nobody was seen to get on, and nothing says whether that is too long: ask again in a minute"))
    return called, why


def _at_rest(row: RayWorker) -> bool:
    return row.state in ENDED or (row.state == "idle" and not known(row.queued))


def _why(case: RayCase) -> list[str]:
    moving = {r.who for r in case.moving}
    calls = [r for r in case.rows if case.finished_since(r)]
    begun = [r for r in case.rows if case.begun_since(r) and r not in calls]
    works = [r for r in case.rows if r.who in moving and r not in calls and r not in begun]
    waits = ("driver", "train")  # for others, as often as not: a rank is judged by its steps
    still = [r for r in case.rows if case.pace(r) == "still" and r.who not in moving and r.kind not in waits]
    lines = [
        text("{names}: finished calls during the look", names=names(calls)) if calls else "",
        text("{names}: began a call during the look", names=names(begun)) if begun else "",
        text("{names}: computing, or at another place at every look", names=names(works)) if works else "",
        text("{names}: at the same place at every look", names=names(still)) if still else "",
    ]
    return [line for line in lines if line]


# --- one line on every worker ---------------------------------------------------------------------------------------

_SAID: Mapping[str, str] = {
    "dead": later("dead"),
    "infeasible": later("can never start: no node has what it needs"),
    "waiting for resources": later("waits for resources"),
    "waiting for an argument": later("waits for an argument"),
    "building runtime_env": later("its runtime_env is being built"),
    "starting": later("its process is starting"),
    "registering": later("its process registers with its node"),
    "in __init__": later("in __init__"),
    "restarting": later("being restarted"),
    "idle": later("idle"),
    "ended": later("ended"),
    "not known": later("not known"),
}


def rank_states(case: RayCase) -> tuple[RankState, ...]:
    """All workers of the running jobs, in the order of the rows."""
    return tuple(_state(case, r, n) for n, r in enumerate(case.rows))


def _state(case: RayCase, row: RayWorker, number: int) -> RankState:
    return RankState(
        rank=row.rank if row.rank is not None else number,
        pid=row.pid,
        state=_word(case, row),
        doing=_doing(case, row),
        where=case.where(row),
        steps=row.executed if isinstance(row.executed, int) else None,
        since_s=known(row.since_s),
        who=row.who,
    )


def _word(case: RayCase, row: RayWorker) -> _Word:
    pace = case.pace(row)
    if pace == "stopped":
        return "stopped"
    if row.state == "running" and pace == "still":
        return "waiting"
    if case.begun_since(row):
        return "computing"
    return "starting" if row.state in NOT_UP else _WORDS.get(row.state, "not known")


def _doing(case: RayCase, row: RayWorker) -> str:
    """Without times, so that those who do the same are told together."""
    seen, pace = case.doing(row), case.pace(row)
    if row.state in ("running", "blocked"):
        waits = row.state == "blocked" or (seen is not None and seen.kind == "ray")
        parts = [text("runs {method}", method=row.method) if row.method and row.kind != "driver" else ""]
        parts.append(_waits(row) if waits else phrase(seen) if seen is not None and pace == "still" else "")
        return ", ".join(p for p in parts if p) or text("running")
    if row.state == "dead" and (death := case.death(row)) is not None:
        return text("dead: {words}", words=death.words)
    if case.begun_since(row):
        return text("has just begun a call")
    words = text(_SAID[row.state])
    return f"{words}, {phrase(seen)}" if row.state == "in __init__" and seen is not None and pace == "still" else words


def _waits(row: RayWorker) -> str:
    whom = names(row.waits_for)
    return text("waits for results of {whom}", whom=whom) if whom else text("waits for results")
