"""The workers of Ray Train: from its own record of runs, where that is kept, else from the class of their actors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...model import RayActor, RayTrainWorker
from .fields import identity, integer, listed, text

__all__ = ["STATE_ACTOR", "from_actors", "from_runs", "state_is_kept"]

Answer = Mapping[str, Any]

STATE_ACTOR = "train_v2_state_actor"
"""The name of the actor that keeps the record, where RAY_TRAIN_ENABLE_STATE_TRACKING=1."""
WORKER_CLASSES = ("RayTrainWorker",)
ENDED = ("FINISHED", "ERRORED", "ABORTED")


def state_is_kept(actors: Iterable[Answer]) -> bool:
    """Whether the record can be asked for, by the rows of the actors. Without that actor the question is not put: it would make the
    dashboard a driver for nothing. It belongs to the first job that trained, and keeps the record of all.
    """
    return any(row.get("name") == STATE_ACTOR and row.get("state") == "ALIVE" for row in actors)


def from_runs(answer: Any, job_id: str | None = None) -> tuple[RayTrainWorker, ...]:
    """From ``/api/train/v2/runs/v1``: the workers of the last attempt of every run, or of those of one job, that has not ended."""
    found: list[RayTrainWorker] = []
    for run in listed((answer or {}).get("train_runs")):
        attempts = list(listed(run.get("attempts")))
        if run.get("status") in ENDED or not attempts or job_id not in (None, identity(run.get("job_id"))):
            continue
        workers = list(listed(max(attempts, key=lambda attempt: integer(attempt.get("start_time_ns"))).get("workers")))
        found += [_of_record(run, worker, len(workers)) for worker in workers]
    return tuple(sorted(found, key=lambda worker: (worker.run, worker.rank)))


def _of_record(run: Answer, worker: Answer, world_size: int) -> RayTrainWorker:
    return RayTrainWorker(
        run=text(run.get("name")) or text(run.get("id")),
        rank=integer(worker.get("world_rank"), -1),
        world_size=world_size,
        pid=integer(worker.get("pid")),
        actor_id=text(worker.get("actor_id")),
        node_id=identity(worker.get("node_id")),
        job_id=identity(run.get("job_id")),
        local_rank=integer(worker.get("local_rank")),
        status=text(run.get("status")),
    )


def _run(actor: RayActor) -> tuple[str, str, str | None]:
    """What the workers of a run have in common, and those of another have not."""
    return actor.job_id, actor.namespace, actor.placement_group_id


def from_actors(actors: Sequence[RayActor], known: Sequence[RayTrainWorker]) -> tuple[RayTrainWorker, ...]:
    """Ray Train workers that no record names, by the class of their actors. Their rank is not known from outside: it is -1."""
    recorded = {worker.actor_id for worker in known}
    alone = [
        actor
        for actor in actors
        if actor.class_name in WORKER_CLASSES and actor.actor_id not in recorded and actor.state != "DEAD"
    ]
    sizes = Counter(_run(actor) for actor in alone)
    return tuple(
        RayTrainWorker(
            run="",
            rank=-1,
            world_size=sizes[_run(actor)],
            pid=actor.pid,
            actor_id=actor.actor_id,
            node_id=actor.node_id,
            job_id=actor.job_id,
            local_rank=-1,
        )
        for actor in alone
    )
