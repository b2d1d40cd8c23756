"""What the cluster's own word tells of each worker (tier 0): one row per actor, task, Ray Train worker and driver."""

from __future__ import annotations

from collections.abc import Container

from ...model import NotAvailable, RayActor, RayJobInfo, RayTask, RayTrainWorker, RayWorker
from ...words.ranks import ordinal
from . import ends
from .facts import NEEDS_STACK, NO_PROCESS, NO_TIME, RAYS_OWN, Facts, Said, row
from .pending import being_started, creating
from .task_rows import task_row
from .words import called, for_time

__all__ = ["driver_task", "rows"]

TRAIN_CLASSES = ("RayTrainWorker",)
OVER = ("FINISHED", "NIL")


def rows(facts: Facts, jobs: Container[str] | None = None) -> list[RayWorker]:
    """The rows of `jobs` (None: of all that run, with what ended ones left behind), in no order yet."""
    train = {worker.actor_id: worker for worker in facts.cluster.train}
    live = {job.job_id for job in facts.cluster.jobs if job.running}
    wanted = live if jobs is None else jobs
    found = [_driver(facts, job) for job in facts.cluster.jobs if job.job_id is not None and job.job_id in wanted]
    for actor in facts.cluster.actors:
        if actor.class_name in RAYS_OWN and actor.state == "ALIVE":
            continue
        left_behind = jobs is None and actor.detached and actor.state != "DEAD"
        if actor.job_id in wanted or left_behind:
            found.append(_actor(facts, actor, train.get(actor.actor_id)))
    for task in facts.tasks.values():
        if task.actor_id is None and task.job_id in wanted and task.state not in OVER:
            found.append(task_row(facts, task))
    return being_started(facts, found)


# --- drivers -------------------------------------------------------------------------------------------------------


def _driver(facts: Facts, job: RayJobInfo) -> RayWorker:
    assert job.job_id is not None
    pid = 0 if isinstance(job.driver_pid, NotAvailable) else job.driver_pid
    return row(
        facts,
        facts.who[job.job_id],
        _of_job(facts, job),
        pid,
        job.driver_node_id,
        kind="driver",
        job_id=job.job_id,
        name=job.entrypoint,
        where=NEEDS_STACK if job.running else NotAvailable("it has ended"),
        task_id=driver_task(job.job_id),
    )


def _of_job(facts: Facts, job: RayJobInfo) -> Said:
    began = facts.ago(None if isinstance(job.started_at, NotAvailable) else job.started_at)
    if job.running:
        return Said("running", "running", began)
    why = f": {job.message.splitlines()[0]}" if job.message.strip() else ""
    ended = facts.ago(None if isinstance(job.ended_at, NotAvailable) else job.ended_at)
    return Said("dead" if job.status == "FAILED" else "ended", f"{job.status.lower()}{why}", ended)


def driver_task(job_id: str) -> str:
    """The id that the driver has as the parent of what it calls."""
    return "f" * 40 + job_id


# --- actors --------------------------------------------------------------------------------------------------------


def _actor(facts: Facts, actor: RayActor, train: RayTrainWorker | None) -> RayWorker:
    is_train = train is not None or actor.class_name in TRAIN_CLASSES
    said = _train_said(train) if is_train and actor.state == "ALIVE" else _actor_said(facts, actor)
    running = facts.running.get(actor.actor_id, []) if actor.state == "ALIVE" else []
    queue = len(facts.waiting.get(actor.actor_id, [])) if facts.tasks_known else actor.queued
    executed = {} if isinstance(actor.executed, NotAvailable) else {"executed": actor.executed}
    return row(
        facts,
        facts.who[actor.actor_id],
        said,
        actor.pid or (train.pid if train else 0),
        actor.node_id,
        kind="train" if is_train else "actor",
        job_id=actor.job_id,
        class_name=actor.class_name,
        name=actor.name,
        method="__init__" if said.state == "in __init__" else _methods(running),
        actor_id=actor.actor_id,
        task_id=_task_id(facts, actor, running),
        rank=train.rank if train and train.rank >= 0 else None,
        where=_where(said, actor),
        detail=ends.lines(actor.death),
        gpus=actor.gpus,
        queued=queue,
        **executed,
    )


def _task_id(facts: Facts, actor: RayActor, running: list[RayTask]) -> str | None:
    """Of the only call that it runs, or of its creation while that is all there is."""
    if actor.state == "ALIVE":
        return running[0].task_id if len(running) == 1 else None
    creation = facts.creations.get(actor.actor_id)
    return creation.task_id if creation is not None and actor.state != "DEAD" else None


def _where(said: Said, actor: RayActor) -> str | NotAvailable:
    """The line at which it died, else why there is none yet."""
    if said.state in ("dead", "ended"):
        return ends.place(actor.death)
    if said.state == "idle":
        return NotAvailable("it runs nothing")
    return NEEDS_STACK if actor.pid else NO_PROCESS


def _actor_said(facts: Facts, actor: RayActor) -> Said:
    creation = facts.creations.get(actor.actor_id)
    times = creation.times.values() if creation is not None else ()
    asked = facts.ago(min(times, default=None))
    if actor.state == "DEAD":
        failed = creation is not None and creation.state == "FAILED"
        return ends.dead(actor.death, facts.ago(max(times, default=None)) if failed else NO_TIME, actor.restarts)
    if actor.state == "ALIVE":
        return _alive(facts, actor)
    if actor.state == "PENDING_CREATION":
        return creating(facts, actor, asked)
    if actor.state == "DEPENDENCIES_UNREADY":
        words = f"waiting for an argument of its __init__ that is not there yet{for_time(asked)}"
        return Said("waiting for an argument", words, asked)
    if actor.state == "RESTARTING":
        return Said("restarting", f"restarting, for the {ordinal(actor.restarts or 1)} time")
    return Said("not known", f"Ray calls it {actor.state}")


def _alive(facts: Facts, actor: RayActor) -> Said:
    running = facts.running.get(actor.actor_id, [])
    if not running:
        return _at_rest(facts, actor)
    began = facts.ago(min((task.times["RUNNING"] for task in running if "RUNNING" in task.times), default=None))
    methods = called(_methods(running))
    blocked = {"RUNNING_IN_RAY_GET": "ray.get", "RUNNING_IN_RAY_WAIT": "ray.wait"}.get(running[0].state)
    if blocked is not None and len(running) == 1:
        return Said("blocked", f"in {methods}{for_time(began)}, blocked in {blocked}", began)
    several = f" ({len(running)} calls)" if len(running) > 1 else ""
    return Said("running", f"running {methods}{several}{for_time(began)}", began)


def _at_rest(facts: Facts, actor: RayActor) -> Said:
    if not facts.tasks_known:
        return Said("not known", "up; whether it runs something needs its stack (tier 1)")
    waiting = facts.waiting.get(actor.actor_id, [])
    if any(task.state == "PENDING_ARGS_AVAIL" for task in waiting):
        n = len(waiting)
        calls = "1 call for it waits for its arguments" if n == 1 else f"{n:,} calls for it wait for their arguments"
        return Said("idle", f"idle; {calls}")
    return Said("idle", "idle")


def _train_said(train: RayTrainWorker | None) -> Said:
    run = f" of {train.run}" if train is not None and train.run else ""
    return Said("running", f"in the training function{run}")


def _methods(running: list[RayTask]) -> str:
    return ", ".join(sorted({task.name.rpartition(".")[2] for task in running}))
