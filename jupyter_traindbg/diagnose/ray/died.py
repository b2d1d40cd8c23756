"""Actors that died of themselves: in their ``__init__``, of a crash, or again and again. One that was let go on purpose is no finding."""

from __future__ import annotations

from collections.abc import Sequence

from ...language import text
from ...model import RayDeath, RayWorker
from ..hang.words import alike
from .case import Hit, RayCase, hit
from .peers import in_words, waiting_for
from .words import names, short

__all__ = ["rule"]

RESTARTS = 3
"""Back so often and gone again: it will not stay."""


def rule(case: RayCase) -> list[Hit]:
    died = [(r, d) for r in case.states("dead", "restarting") if (d := case.death(r)) is not None]
    in_init = [(r, d) for r, d in died if d.kind == "in __init__"]
    crashed = [(r, d) for r, d in died if d.kind == "crashed" and r.kind != "task"]
    homeless = [(r, d) for r, d in died if d.kind == "unschedulable" and r.kind != "task"]
    groups = alike(in_init, lambda rd: (rd[0].job_id, rd[0].class_name, rd[1].where, rd[1].error_type))
    hits = [_in_init(case, [r for r, _ in same], same[0][1]) for same in groups]
    groups = alike(crashed, lambda rd: (rd[0].job_id, rd[0].class_name, rd[1].words))
    hits += [_crashed(case, [r for r, _ in same], same[0][1]) for same in groups]
    groups = alike(homeless, lambda rd: (rd[0].job_id, rd[0].class_name, rd[1].words))
    hits += [_homeless(case, [r for r, _ in same], same[0][1]) for same in groups]
    return hits + [h for r in case.states("restarting") if (h := _again(case, r)) is not None]


def _peers_waiting(case: RayCase, rows: Sequence[RayWorker]) -> list[RayWorker]:
    """Others of the class that stand still meanwhile, each at a wait: they may be waiting for the dead one."""
    still = [p for p in case.peers(rows[0]) if p not in rows and p.pid and case.pace(p) == "still"]
    return [p for p in still if p.state in ("running", "in __init__", "blocked")]


def _severe(case: RayCase, rows: Sequence[RayWorker]) -> bool:
    return bool(_peers_waiting(case, rows)) or case.stands_still or not case.views


def _in_init(case: RayCase, rows: Sequence[RayWorker], death: RayDeath) -> Hit:
    at = text(" at {short}", short=short(death.where)) if death.where else ""
    waiting = _peers_waiting(case, rows)
    peers = text(", and {names} wait for ever", names=names(waiting)) if waiting else ""
    return hit(
        "ray_died_in_init",
        "critical" if _severe(case, rows) else "warning",
        text("{names} died in __init__{at}: {words}{peers}", names=names(rows), at=at, words=death.words, peers=peers),
        rows,
        death.where,
        evidence=[
            *dict.fromkeys(r.words for r in rows[:3]),
            *(in_words(case, p) for p in waiting[:3]),
            *waiting_for(case, rows),
        ],
        cause=text(
            "An exception in __init__ ends the actor. Ray tells that only to who asks for the result of one "
            "of its calls; whoever waits for it in another way (a barrier, a queue, a rendezvous) is told "
            "nothing."
        ),
        next_steps=[
            text("Mend the cause; the whole traceback is in the actor's log."),
            text(
                "Let the driver notice: `ray.get([w.__ray_ready__.remote() for w in workers], timeout=...)` "
                "before the work is handed out."
            ),
        ],
        explains=[*waiting, *(r for r in case.rows if r.kind == "driver")],
    )


def _crashed(case: RayCase, rows: Sequence[RayWorker], death: RayDeath) -> Hit:
    waiting = _peers_waiting(case, rows)
    verb = "has crashed" if len(rows) == 1 else "have crashed"
    return hit(
        "ray_worker_died",
        "critical" if _severe(case, rows) else "warning",
        text("{names} {verb}: {words}", names=names(rows), verb=verb, words=death.words),
        rows,
        death.where,
        evidence=[death.exit_detail, *(in_words(case, p) for p in waiting[:3]), *waiting_for(case, rows)],
        cause=text(
            "Its process ended without Python's having a say: a signal (SIGSEGV, SIGKILL), `os._exit`, or a "
            "library that aborted."
        ),
        next_steps=[
            text(
                "Read the end of its log: `ray logs actor --id {actor_id}`; for SIGKILL also dmesg on its node.",
                actor_id=rows[0].actor_id,
            ),
            text("`max_restarts` brings such an actor back, `max_task_retries` its calls."),
        ],
        explains=[*waiting, *(r for r in case.rows if r.kind == "driver")],
    )


def _homeless(case: RayCase, rows: Sequence[RayWorker], death: RayDeath) -> Hit:
    return hit(
        "ray_infeasible",
        "critical" if _severe(case, rows) else "warning",
        text("{names} could be placed nowhere: {words}", names=names(rows), words=death.words),
        rows,
        evidence=[*waiting_for(case, rows)],
        cause=text("Its scheduling strategy or labels leave no node that it may run on."),
        next_steps=[
            text("Name a node that lives (node ids change with every start of the cluster), or use `soft=True`.")
        ],
        explains=[*rows, *case.drivers],
    )


def _again(case: RayCase, row: RayWorker) -> Hit | None:
    actor = case.actors.get(row.actor_id or "")
    if actor is None or actor.restarts < RESTARTS:
        return None
    death = case.death(row)
    words = death.words if death is not None else row.words
    return hit(
        "ray_worker_died",
        "critical",
        text(
            "{who} dies and is restarted again and again ({restarts} times): {words}",
            who=row.who,
            restarts=actor.restarts,
            words=words,
        ),
        [row],
        death.where if death is not None else None,
        evidence=[row.words, *(waiting_for(case, [row]))],
        cause=text("With `max_restarts` Ray brings it back, it fails in the same way, and its callers wait meanwhile."),
        next_steps=[text("Mend the cause; a finite `max_restarts` makes it visible.")],
    )
