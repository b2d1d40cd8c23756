"""Where an actor is while Ray itself does not say so: in its ``__init__`` it has a process, and no node yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...model import RayActor, RayJobInfo, RayProcess, RayTask
from .processes import Reported

__all__ = ["drivers_placed", "placed"]


def placed(
    actors: Sequence[RayActor], tasks: Sequence[RayTask], processes: Sequence[RayProcess], measured: Reported
) -> tuple[RayActor, ...]:
    """The actors with the process of their creation: its pid from the task, its node from that process's own report, or by its pid where
    only one live process of the cluster has that.
    """
    creating = {task.actor_id: task for task in tasks if task.kind == "ACTOR_CREATION_TASK" and task.state == "RUNNING"}
    reported = {seen.actor_id: key for key, seen in measured.items() if seen.actor_id}
    nodes: dict[int, set[str]] = {}
    for process in processes:
        if process.alive and process.node_id is not None:
            nodes.setdefault(process.pid, set()).add(process.node_id)
    return tuple(_placed(actor, creating.get(actor.actor_id), reported, nodes) for actor in actors)


def drivers_placed(jobs: Sequence[RayJobInfo], processes: Sequence[RayProcess]) -> tuple[RayJobInfo, ...]:
    """The jobs with the node of their driver: Ray names it only for some."""
    drivers = {process.job_id: process for process in processes if process.kind == "DRIVER"}

    def placed(job: RayJobInfo) -> RayJobInfo:
        driver = drivers.get(job.job_id) if job.job_id and job.driver_node_id is None else None
        return (
            job
            if driver is None
            else replace(job, driver_node_id=driver.node_id, driver_pid=job.driver_pid or driver.pid)
        )

    return tuple(placed(job) for job in jobs)


def _placed(
    actor: RayActor, task: RayTask | None, reported: dict[str, tuple[str, int]], nodes: dict[int, set[str]]
) -> RayActor:
    if actor.node_id is not None or actor.state not in ("PENDING_CREATION", "RESTARTING"):
        return actor
    pid = actor.pid or (task.pid if task is not None else 0)
    known = reported.get(actor.actor_id)
    if known is not None and known[1] == pid:
        return replace(actor, pid=pid, node_id=known[0])
    if task is not None and task.node_id is not None:
        return replace(actor, pid=pid, node_id=task.node_id)
    alone = nodes.get(pid, set())
    return replace(actor, pid=pid, node_id=next(iter(alone)) if len(alone) == 1 else None)
