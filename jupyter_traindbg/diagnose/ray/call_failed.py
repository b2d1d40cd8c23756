"""A call that has failed on one actor while others of its kind are still in theirs, and wait there for that one: ranks of one training.

Ray tells of an exception to whoever asks for the result of that very call. A driver that waits for the others' results first never does.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...language import counted, text
from ...model import RayDeath, RayTask, RayWorker
from ..hang.words import alike, notice_in_the_driver
from .case import Hit, RayCase, hit, known
from .peers import call_name, in_words, waiting_for
from .words import names

__all__ = ["rule"]


def rule(case: RayCase) -> list[Hit]:
    """One finding for all that failed in the same call for the same reason."""
    failed = [(row, task, task.death) for row, task in _failed(case) if task.death is not None]
    waiting = [(row, task, death, peers) for row, task, death in failed if (peers := _left(case, row, task))]
    groups = alike(waiting, lambda one: (one[0].job_id, one[1].name, one[2].where, one[2].error_type))
    return [_hit(case, [row for row, *_ in same], same[0][1], same[0][2], same[0][3]) for same in groups]


def _failed(case: RayCase) -> list[tuple[RayWorker, RayTask]]:
    """The actors without a call, each with the last one that failed on it."""
    last: dict[str, RayTask] = {}
    for task in case.tasks:
        if task.kind == "ACTOR_TASK" and task.state == "FAILED" and task.actor_id:
            before = last.get(task.actor_id)
            if before is None or _ended(task) >= _ended(before):
                last[task.actor_id] = task
    return [(row, last[row.actor_id]) for row in case.states("idle") if row.actor_id in last]


def _ended(task: RayTask) -> float:
    return max(task.times.values(), default=0.0)


def _left(case: RayCase, row: RayWorker, task: RayTask) -> list[RayWorker]:
    """The peers that were in the same call as it failed, and wait in it for other ranks since."""
    return [
        peer
        for peer in case.peers(row)
        if peer.state in ("running", "blocked")
        and call_name(peer) == task.name
        and case.waits_for_ranks(peer)
        and case.cluster.taken_at - (known(peer.since_s) or 0.0) <= _ended(task)
    ]


def _hit(case: RayCase, rows: Sequence[RayWorker], task: RayTask, death: RayDeath, peers: Sequence[RayWorker]) -> Hit:
    return hit(
        "ray_call_failed",
        "critical",
        counted(
            "{call} has failed on {names}: {words}; {peers} waits for that in a collective",
            "{call} has failed on {names}: {words}; {peers} wait for that in a collective",
            len(peers),
            call=task.name,
            names=names(rows),
            words=death.words,
            peers=names(peers),
        ),
        rows,
        death.where,
        evidence=[*(in_words(case, p) for p in peers[:4]), *waiting_for(case, rows)],
        cause=text(
            "Ray tells of an exception to whoever asks for the result of that very call. The driver waits for another one's, and the other "
            "ranks for what this one was to do."
        ),
        next_steps=[
            text(
                "Mend the cause; the whole traceback is in the actor's log, and what `ray.get` on that call's ref raises."
            ),
            notice_in_the_driver(),
        ],
        explains=[*peers, *case.drivers],
    )
