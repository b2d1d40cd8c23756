"""Which processes a Ray job has, who they are, which of them train, and for whom they wait. Pure functions of one look at the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ..frames.whose import at_place
from ..model import (
    Coroutine,
    HostPid,
    JobProcess,
    NotAvailable,
    RayCluster,
    RayJobInfo,
    RayThread,
    RayTrainWorker,
    RayWorker,
)
from ..spread.part import Member
from ..spread.placed import Placed, numbered
from .workers.facts import RAYS_OWN
from .workers.naming import names

__all__ = ["job_processes", "members"]


def members(cluster: RayCluster, job: RayJobInfo) -> list[Placed]:
    """The job's driver, its actors and the workers of its running tasks, trainers first: each process once, those without one left out."""
    who = names(cluster, job.job_id)
    trains = {worker.actor_id: worker for worker in cluster.train if worker.job_id in (job.job_id, None)}
    found: dict[tuple[str, int], tuple[str, RayTrainWorker | None]] = {}
    for node_id, pid, name, worker in _processes(cluster, job, who, trains):
        if node_id and pid:
            found.setdefault((node_id, pid), (name, worker))
    placed = [
        Placed(
            node_id,
            Member(pid, worker.rank if worker else -1, worker.world_size if worker else 1, name, worker is not None),
        )
        for (node_id, pid), (name, worker) in found.items()
    ]
    return numbered(placed)


def _processes(
    cluster: RayCluster, job: RayJobInfo, who: Mapping[str, str], trains: Mapping[str, RayTrainWorker]
) -> Iterable[tuple[str | None, int, str, RayTrainWorker | None]]:
    for worker in trains.values():
        yield worker.node_id, worker.pid, who.get(worker.actor_id, f"rank {worker.rank}"), worker
    if not isinstance(job.driver_pid, NotAvailable):
        yield job.driver_node_id or _node_at(cluster, job.driver_ip), job.driver_pid, "driver", None
    for actor in cluster.actors:
        if actor.job_id == job.job_id and actor.state != "DEAD" and actor.class_name not in RAYS_OWN:
            yield actor.node_id, actor.pid, who.get(actor.actor_id, actor.class_name), None
    for task in () if isinstance(cluster.tasks, NotAvailable) else cluster.tasks:
        if task.job_id == job.job_id and task.state == "RUNNING":
            yield task.node_id, task.pid, who.get(task.task_id, task.name), None


def job_processes(rows: Sequence[RayWorker]) -> dict[HostPid, JobProcess]:
    """By its node and pid each process of a job: who it is, and which others, in the order of `rows`, make what it waits for. Pure."""
    at = {row.who: (row.node_id or "", row.pid) for row in rows if row.pid}
    found: dict[HostPid, JobProcess] = {}
    for row in rows:
        if row.pid:
            own = found.get(at[row.who], JobProcess(row.who, drives=row.kind == "driver"))
            wanted = set(row.waits_for)
            waits = (place for who, place in at.items() if who in wanted and place != at[row.who])
            awaiting = [_coroutine(n, one) for n, one in enumerate(row.threads) if one.kind == "coroutine"]
            found[at[row.who]] = replace(
                own,
                waits_for=tuple(dict.fromkeys((*own.waits_for, *waits))),
                coroutines=(*own.coroutines, *awaiting),
            )
    return found


def _coroutine(number: int, one: RayThread) -> Coroutine:
    frames = tuple(frame for place in one.stack if (frame := at_place(place)) is not None)
    return Coroutine(number, one.method or one.name, frames, one.waiting_for.on or None)


def _node_at(cluster: RayCluster, ip: str) -> str | None:
    """The living node at `ip`, where there is one only."""
    there = [node.node_id for node in cluster.nodes if node.alive and node.ip == ip]
    return there[0] if len(there) == 1 else None
