"""Detached actors whose job is over: they live on and keep their resources, and the next job waits for these."""

from __future__ import annotations

from collections.abc import Sequence

from ...language import text
from ...model import RayActor, RayWorker
from ...words.durations import time_words
from ..hang.words import alike
from .case import Hit, RayCase, hit, known
from .words import names, resources_words

__all__ = ["rule"]

_SERVICES = (
    "Serve", "Proxy", "HTTPProxy", "_", "JobSupervisor", "AutoscalingRequester", "TrainStateActor", "TrainController",
    "PlacementGroupCleaner", "SynchronizationActor",
)  # fmt: skip
"""Ray's own: made to outlive the job that brought them."""
YOUNG_S = 10.0


def rule(case: RayCase) -> list[Hit]:
    left = [a for a in case.cluster.actors if _left(case, a)]
    return [_hit(case, same) for same in alike(left, lambda a: a.job_id)]


def _left(case: RayCase, actor: RayActor) -> bool:
    """Idle, with resources, and the job that made it has ended. One that is in use serves somebody."""
    job = next((j for j in case.cluster.jobs if j.job_id == actor.job_id), None)
    if not actor.detached or not actor.pid or actor.state != "ALIVE" or actor.job_id in case.running_jobs:
        return False
    if job is None or job.running or actor.namespace == "serve" or actor.class_name.startswith(_SERVICES):
        return False
    ended = known(job.ended_at)
    if ended is not None and case.cluster.taken_at - ended < YOUNG_S:
        return False
    return any(v for k, v in actor.required.items()) and not _in_use(case, actor)


def _in_use(case: RayCase, actor: RayActor) -> bool:
    running = any(t.actor_id == actor.actor_id and t.state.startswith("RUNNING") for t in case.tasks)
    later = next((a for a in case.later.actors if a.actor_id == actor.actor_id), None) if case.later else None
    busier = later is not None and known(later.executed) != known(actor.executed)
    return running or busier or bool(known(actor.queued))


def _hit(case: RayCase, same: Sequence[RayActor]) -> Hit:
    whos = {r.actor_id: r.who for r in case.workers.workers if r.actor_id}
    who = [whos.get(a.actor_id) or a.name or a.class_name for a in same]
    held: dict[str, float] = {}
    for actor in same:
        for resource, amount in actor.required.items():
            held[resource] = held.get(resource, 0.0) + amount
    job = next((j for j in case.cluster.jobs if j.job_id == same[0].job_id), None)
    ended = known(job.ended_at) if job is not None else None
    since = "" if ended is None else time_words(case.cluster.taken_at - ended)
    ago = text(", which ended {since} ago", since=since) if since else ""
    waiting = [r for r in case.states("waiting for resources") if set(case.required(r)) & set(held)]
    return hit(
        "ray_leftovers",
        "warning" if waiting else "info",
        text(
            "Left by job {job_id}{ago}: {names} still {value} {resources_words}",
            job_id=same[0].job_id,
            ago=ago,
            names=names(who),
            value="hold" if len(who) > 1 else "holds",
            resources_words=resources_words(held),
        ),
        who,
        evidence=[
            text("they are idle: no call runs and none is queued"),
            *([_wanted(waiting)] if waiting else []),
        ],
        cause=text("A detached actor lives until somebody kills it, also when its job is long over."),
        next_steps=[
            text("See and release them: `traindbg ray-rescue --leftovers`, then with `--release --yes`."),
            text("If they are meant to stay, nothing is wrong."),
        ],
        explains=waiting,
    )


def _wanted(waiting: Sequence[RayWorker]) -> str:
    return text("{names} wait for resources of this kind", names=names(waiting))
