"""Who waits for what a dead actor should deliver. Ray raises only in calls on the dead actor itself; a queue or a barrier stays empty."""

from __future__ import annotations

from ...language import text
from ...model import RayWorker
from ...words.durations import time_words
from .case import Hit, RayCase, hit, known
from .peers import in_words
from .words import names, short

__all__ = ["rule"]

LEAST_S = 5.0
_ITSELF = frozenset(
    {"in __init__", "crashed", "out of memory", "node died", "runtime_env", "unschedulable", "not known"}
)


def rule(case: RayCase) -> list[Hit]:
    dead = [r for r in case.states("dead", "restarting") if _unexpected(case, r)]
    hits = []
    for row in case.rows:
        told = [d for d in dead if d.who in row.waits_for and d is not row]
        if told and (known(row.since_s) or 0.0) > LEAST_S:
            hits.append(_hit(case, row, told, sure=True))
    if not hits and dead and case.stands_still:
        hits = [_hit(case, d, dead, sure=False) for d in case.drivers if d.pid and case.pace(d) == "still"]
    return hits


def _unexpected(case: RayCase, row: RayWorker) -> bool:
    death = case.death(row)
    return row.kind == "actor" and death is not None and death.kind in _ITSELF


def _hit(case: RayCase, row: RayWorker, dead: list[RayWorker], *, sure: bool) -> Hit:
    at, since = short(case.where(row)), known(row.since_s)
    lasts = text(" for {since}", since=time_words(since)) if since else ""
    deaths = [f"{d.who}: {death.words}" for d in dead[:4] if (death := case.death(d)) is not None]
    nobody = text("nobody of the job got on with anything while it was watched")
    return hit(
        "ray_waits_on_dead",
        "critical",
        text(
            "{who} waits{lasts} at {at} for what {names} can no longer deliver",
            who=row.who,
            lasts=lasts,
            at=at,
            names=names(dead),
        ),
        [row],
        case.where(row),
        evidence=[in_words(case, row), *deaths, *([] if sure else [nobody])],
        cause=text(
            "The dead actor raises only in calls on itself. What waits for its results in another way waits for ever."
        ),
        next_steps=[
            text("Give the wait at {at} a time-out, and check the workers when it is over.", at=at),
            text("Mend why it died, and start the job again."),
        ],
        confidence="high" if sure else "medium",
    )
