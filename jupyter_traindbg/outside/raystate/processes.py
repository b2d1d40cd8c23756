"""Worker and driver processes: who Ray knows, what each node's agent measured of them, and how many calls each has done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...model import Maybe, NotAvailable, RayActor, RayProcess
from . import devices
from .fields import identity, integer, listed, number, seconds, text
from .nodes import node_id_of

__all__ = ["Measured", "of_actors", "processes", "reported"]

Answer = Mapping[str, Any]

NOT_REPORTED = NotAvailable("its node has not reported")
ENDED = NotAvailable("it has ended")
NO_GPU = NotAvailable("it has no memory on a GPU that its node sees")


@dataclass(frozen=True)
class Measured:
    """What the nodes reported of one process: its counts every 15 s, CPU and memory every few seconds."""

    job_id: str | None = None
    actor_id: str | None = None
    executed: int | None = None
    queued: int | None = None
    gpus: tuple[int, ...] = ()
    cpu_percent: float | None = None
    rss_bytes: int | None = None
    on_gpus: Mapping[int, int] = field(default_factory=dict)
    """Bytes of GPU memory by the index of the GPU."""


Reported = Mapping[tuple[str, int], Measured]
"""By node and pid."""


def reported(nodes: Sequence[Answer]) -> Reported:
    """From the details or the summary of nodes; the summary lacks CPU and memory."""
    found: dict[tuple[str, int], Measured] = {}
    for node in nodes:
        node_id, gpu = node_id_of(node), devices.by_process(node)
        for process in listed(node.get("workers")):
            pid = integer(process.get("pid"))
            counts = next(iter(listed(process.get("coreWorkerStats"))), {})
            found[node_id, pid] = replace(_counted(counts), **_physical(process), on_gpus=gpu.get(pid, {}))
        for counts in listed((node.get("raylet") or {}).get("coreWorkersStats")):
            key = node_id, integer(counts.get("pid"))
            if key not in found or found[key].executed is None:
                found[key] = replace(_counted(counts), on_gpus=gpu.get(key[1], {}))
    return found


def _counted(counts: Answer) -> Measured:
    if not counts:
        return Measured()
    slots = listed(((counts.get("usedResources") or {}).get("GPU") or {}).get("resourceSlots"))
    return Measured(
        job_id=identity(counts.get("jobId")),
        actor_id=identity(counts.get("actorId")),
        executed=_completed(counts),
        queued=integer(counts.get("taskQueueLength")),
        gpus=tuple(sorted(integer(slot.get("slot")) for slot in slots)),
    )


def _completed(counts: Answer) -> int:
    """Calls that have ended: Ray counts one as executed when it begins, and an actor's creation like a call."""
    creation = 1 if identity(counts.get("actorId")) else 0
    return max(0, integer(counts.get("numExecutedTasks")) - integer(counts.get("numRunningTasks")) - creation)


def _physical(process: Answer) -> dict[str, Any]:
    memory = process.get("memoryInfo") or {}
    rss = number(memory.get("rss"))
    return {"cpu_percent": number(process.get("cpuPercent")), "rss_bytes": int(rss) if rss is not None else None}


def processes(workers: Sequence[Answer], measured: Reported) -> tuple[RayProcess, ...]:
    """From ``/api/v0/workers``, joined with what the nodes reported."""
    return tuple(_process(entry, measured) for entry in workers)


def _process(entry: Answer, measured: Reported) -> RayProcess:
    node_id, pid = identity(entry.get("node_id")), integer(entry.get("pid"))
    alive = bool(entry.get("is_alive"))
    seen = measured.get((node_id or "", pid), Measured()) if alive else Measured()
    missing = NOT_REPORTED if alive else ENDED
    worker_id, kind = text(entry.get("worker_id")), text(entry.get("worker_type"))
    return RayProcess(
        worker_id=worker_id,
        pid=pid,
        node_id=node_id,
        kind=kind,
        alive=alive,
        job_id=seen.job_id or (identity(worker_id[:8]) if kind == "DRIVER" else None),
        exit_type=text(entry.get("exit_type")),
        exit_detail=text(entry.get("exit_detail")),
        launched_at=seconds(entry.get("worker_launch_time_ms"), "Ray did not launch it"),
        registered_at=seconds(entry.get("start_time_ms"), "it has not registered"),
        ended_at=seconds(entry.get("end_time_ms"), "it has not ended"),
        cpu_percent=_or(seen.cpu_percent, missing),
        rss_bytes=_or(seen.rss_bytes, missing),
        gpu_bytes=_or(sum(seen.on_gpus.values()) if seen.on_gpus else None, NO_GPU if alive else ENDED),
        executed=_or(seen.executed, missing),
        queued=_or(seen.queued, missing),
        on_gpus=seen.on_gpus,
    )


def _or(value: Any, missing: NotAvailable) -> Maybe[Any]:
    return missing if value is None else value


def of_actors(actors: Sequence[RayActor], measured: Reported) -> tuple[RayActor, ...]:
    """The actors with what their nodes reported of their processes."""
    by_actor = {seen.actor_id: seen for seen in measured.values() if seen.actor_id is not None}
    return tuple(_reported_actor(actor, by_actor) for actor in actors)


def _reported_actor(actor: RayActor, by_actor: Mapping[str, Measured]) -> RayActor:
    seen = by_actor.get(actor.actor_id)
    if seen is None or actor.state == "DEAD":
        return actor
    return replace(
        actor, executed=_or(seen.executed, NOT_REPORTED), queued=_or(seen.queued, NOT_REPORTED), gpus=seen.gpus
    )
