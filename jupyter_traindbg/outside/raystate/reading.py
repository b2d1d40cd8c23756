"""One look at a cluster through its dashboard: tier 0, nothing is started there and nothing changed.

Two rounds, the questions of each at the same time. First what decides: nodes, jobs, actors, tasks that have not ended, live processes.
Then, as far as the deadline goes, the rest: CPU and memory of processes, failed tasks, dead processes, events, Ray Train's own record.
Finished tasks are never read but for the creation of actors, by name: a cluster keeps 100,000 of them, and its head would need minutes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...errors import CannotAttach, DeadlineExceeded, NotPermitted, TraindbgError
from ...language import text
from ...model import Maybe, NotAvailable, RayActor, RayCluster, RayTask
from . import brokered, devices, events, naming, placing, processes, train, work
from .addresses import ClusterAddress
from .asking import Questions, Unanswered
from .dashboard import Answer, Dashboard
from .nodes import nodes as read_nodes
from .ours import without_ours
from .picking import job_id_of

__all__ = ["read"]

SOME = 1_000
"""How many failed tasks and dead processes are fetched: more would drown the rest."""
NODES_IN_DETAIL = 64
GCS_S = 20.0
"""What the way over the GCS gets at least: the process that takes it has to start, and to import ray."""
Rows = Sequence[Answer]
Conditions = list[tuple[str, str, str]]


def read(address: ClusterAddress, job: str | None = None, deadline_s: float = 5.0) -> RayCluster:
    """What the cluster says of itself; of one job (an id or a submission id) or of all.

    50-100 ms on a small cluster; a task costs 0.3 ms of CPU, half of it the head's. Raises `NotPermitted` for a token that is
    missing or wrong, `NoTarget` for a job that is not there, `CannotAttach` where nobody answers, `DeadlineExceeded` where not even the
    first round came in time.
    """
    began, until = time.monotonic(), time.monotonic() + deadline_s
    if not address.dashboard:
        return _through_gcs(address, job, until, text("the dashboard's address is not known"), None)
    dashboard = Dashboard(address.dashboard, address.token)
    try:
        version = dashboard.admit(until)
        cluster = _look(Questions(dashboard, until), job)
    except NotPermitted:
        raise
    except (CannotAttach, DeadlineExceeded) as e:
        return _through_gcs(address, job, max(until, time.monotonic() + GCS_S), e.cause, e)
    known = replace(
        cluster, address=address.gcs, ray_version=str(version["ray_version"]), taken_s=time.monotonic() - began
    )
    return without_ours(known)


def _through_gcs(
    address: ClusterAddress, job: str | None, until: float, why: str, error: TraindbgError | None
) -> RayCluster:
    cluster = brokered.cluster(address, job, until)
    if cluster is None:
        raise error or CannotAttach(why, text("name the dashboard: http://HOST:8265"))
    note = text(
        "{why}; read from the GCS instead, which has no CPU and memory of processes, no counts of calls and no events",
        why=why,
    )
    return without_ours(replace(cluster, notes=(note, *cluster.notes)))


def _look(ask: Questions, job: str | None) -> RayCluster:
    taken_at = time.time()
    job_id = job_id_of([work.job(entry) for entry in ask.listing("jobs")()], job) if job is not None else None
    first = _first_round(ask, job_id)
    for needed in ("nodes", "actors"):
        if isinstance(first[needed], Unanswered):
            raise first[needed].error
    actors = tuple(work.actor(entry) for entry in ask.had(first, "actors", []))
    summary: Mapping[str, Any] = ask.had(first, "summary", {})
    machines: Rows = summary.get("summary") or []
    second = _second_round(ask, job_id, actors, machines, first)
    detailed = [answer for name, answer in second.items() if name.startswith("node ") and isinstance(answer, Mapping)]
    measured = processes.reported([*detailed, *machines])
    live = _maybe(
        first["workers"], lambda rows: processes.processes([*rows, *ask.had(second, "dead workers", [])], measured)
    )
    tasks = _tasks(ask, first, second)
    known_tasks = () if isinstance(tasks, NotAvailable) else tasks
    return RayCluster(
        address="",
        dashboard=ask.dashboard.url,
        ray_version="",
        taken_at=taken_at,
        taken_s=0.0,
        source="state API",
        nodes=devices.of_nodes(
            read_nodes(ask.had(first, "nodes", []), machines, summary.get("nodeLogicalResources") or {}), machines
        ),
        jobs=placing.drivers_placed([work.job(entry) for entry in ask.had(first, "jobs", [])], live or ()),
        actors=_numbered(
            placing.placed(processes.of_actors(actors, measured), known_tasks, live or (), measured),
            ask.had(second, "order of actors", []),
        ),
        tasks=tasks,
        processes=live,
        train=_train(ask, second, actors, job_id),
        placement_groups=_maybe(first["placement_groups"], lambda rows: _groups(rows, job_id)),
        events=_maybe(second["events"], lambda answer: events.events(answer, job_id)),
        runtime_envs=tuple(work.runtime_env(entry) for entry in ask.had(second, "runtime_envs", [])),
        notes=tuple(dict.fromkeys(ask.notes)),
    )


def _first_round(ask: Questions, job_id: str | None) -> dict[str, Any]:
    of_job = _of_job(job_id)
    return ask.together(
        {
            "nodes": ask.listing("nodes"),
            "summary": lambda: ask.get("/nodes", view="summary", nocache="1")["data"],
            "actors": ask.listing("actors", of_job),
            "the keeper of Ray Train's record": ask.listing("actors", [("name", "=", train.STATE_ACTOR)]),
            "tasks": ask.listing("tasks", [*of_job, ("state", "!=", "FINISHED"), ("state", "!=", "FAILED")]),
            "workers": ask.listing("workers", [("is_alive", "=", "True")]),
            "placement_groups": ask.listing("placement_groups"),
            "jobs": ask.listing("jobs"),
        }
    )


def _second_round(
    ask: Questions, job_id: str | None, actors: Sequence[RayActor], machines: Rows, first: Mapping[str, Any]
) -> dict[str, Any]:
    of_job = _of_job(job_id)
    pending: Rows = ask.had(first, "tasks", [])
    alive = [str(node["raylet"]["nodeId"]) for node in machines if (node.get("raylet") or {}).get("state") == "ALIVE"]
    if len(alive) > NODES_IN_DETAIL:
        ask.notes.append(f"CPU and memory of processes were read on {NODES_IN_DETAIL} of {len(alive)} nodes")
    questions = {f"node {node_id}": ask.node(node_id) for node_id in alive[:NODES_IN_DETAIL]}
    questions["failed tasks"] = ask.listing("tasks", [*of_job, ("state", "=", "FAILED")], SOME)
    for name in naming.creations(actors):
        questions[f"creation {name}"] = ask.listing("tasks", [*of_job, ("name", "=", name), ("state", "=", "FINISHED")])
    unwanted: Conditions = [
        ("exit_type", "!=", exit_type) for exit_type in ("INTENDED_SYSTEM_EXIT", "INTENDED_USER_EXIT")
    ]
    questions["dead workers"] = ask.listing("workers", [("is_alive", "=", "False"), *unwanted], SOME)
    questions["order of actors"] = lambda: list(ask.get("/logical/actors", nocache="1")["data"]["actors"])
    if any(row.get("state") == "PENDING_NODE_ASSIGNMENT" and _has_env(row) for row in pending):
        questions["runtime_envs"] = ask.listing("runtime_envs")
    questions["events"] = lambda: ask.get("/events", nocache="1")
    if train.state_is_kept(ask.had(first, "the keeper of Ray Train's record", [])):
        questions["Ray Train's record"] = lambda: ask.get("/api/train/v2/runs/v1")
    return ask.together(questions)


def _has_env(row: Mapping[str, Any]) -> bool:
    return (row.get("runtime_env_info") or {}).get("serialized_runtime_env") not in (None, "", "{}")


def _tasks(ask: Questions, first: Mapping[str, Any], second: Mapping[str, Any]) -> Maybe[tuple[RayTask, ...]]:
    if isinstance(first["tasks"], Unanswered):
        return NotAvailable(first["tasks"].why)
    created = [row for name in second if name.startswith("creation ") for row in ask.had(second, name, [])]
    return work.tasks((*first["tasks"], *ask.had(second, "failed tasks", []), *created))


def _train(ask: Questions, second: Mapping[str, Any], actors: Sequence[RayActor], job_id: str | None) -> Any:
    recorded = train.from_runs(ask.had(second, "Ray Train's record", {}), job_id)
    return (*recorded, *train.from_actors(actors, recorded))


def _maybe(answer: Any, build: Any) -> Any:
    return NotAvailable(answer.why) if isinstance(answer, Unanswered) else build(answer)


def _of_job(job_id: str | None) -> Conditions:
    return [("job_id", "=", job_id)] if job_id else []


def _numbered(actors: Sequence[RayActor], order: Sequence[str]) -> tuple[RayActor, ...]:
    """The actors with their place in the order of creation: the dashboard lists them as it has heard of them, one after the other. Ray's
    times are whole milliseconds, in which a loop creates several.
    """
    place = {actor_id: i for i, actor_id in enumerate(order)}
    return tuple(replace(actor, order=place.get(actor.actor_id)) for actor in actors)


def _groups(rows: Rows, job_id: str | None) -> Any:
    found = tuple(work.placement_group(entry) for entry in rows)
    return tuple(group for group in found if job_id is None or group.job_id == job_id)
