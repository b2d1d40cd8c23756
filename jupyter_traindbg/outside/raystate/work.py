"""Jobs, actors, tasks and placement groups from the state API's JSON. Fields that an older Ray lacks are simply not there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ...model import Maybe, NotAvailable, RayActor, RayJobInfo, RayPlacementGroup, RayRuntimeEnv, RayTask
from ...terminal_codes import plain
from . import death
from .fields import identity, integer, listed, number, resources, seconds, text

__all__ = ["actor", "job", "placement_group", "runtime_env", "task", "tasks"]

LONGEST = 80

Answer = Mapping[str, Any]


def job(entry: Answer) -> RayJobInfo:
    driver = entry.get("driver_info") or {}
    pid = integer(driver.get("pid"))
    known: Maybe[int] = pid or NotAvailable(
        "its driver has not started" if entry.get("status") == "PENDING" else "Ray does not say"
    )
    return RayJobInfo(
        job_id=entry.get("job_id"),
        submission_id=entry.get("submission_id"),
        status=text(entry.get("status")),
        entrypoint=text(entry.get("entrypoint")),
        driver_pid=known,
        driver_node_id=identity(entry.get("driver_node_id")),
        driver_ip=text(driver.get("node_ip_address")),
        message=plain(text(entry.get("message"))),
        started_at=seconds(entry.get("start_time"), "it has not started"),
        ended_at=seconds(entry.get("end_time"), "it has not ended"),
    )


def actor(entry: Answer) -> RayActor:
    dead = entry.get("state") == "DEAD"
    return RayActor(
        actor_id=text(entry.get("actor_id")),
        class_name=text(entry.get("class_name")),
        name=text(entry.get("name")),
        namespace=text(entry.get("ray_namespace")),
        job_id=text(entry.get("job_id")),
        state=text(entry.get("state")),
        pid=integer(entry.get("pid")),
        node_id=identity(entry.get("node_id")),
        required=resources(entry.get("required_resources")),
        detached=bool(entry.get("is_detached")),
        restarts=integer(entry.get("num_restarts")),
        placement_group_id=identity(entry.get("placement_group_id")),
        death=death.of_actor(entry.get("death_cause")) if dead or entry.get("state") == "RESTARTING" else None,
        executed=NotAvailable("its node has not reported"),
        queued=NotAvailable("its node has not reported"),
    )


def tasks(entries: Iterable[Answer]) -> tuple[RayTask, ...]:
    """Each attempt once, by its last entry: what went on in a first listing and has ended in a later one has ended."""
    read = [task(entry) for entry in entries]
    return tuple({(one.task_id, one.attempt): one for one in read}.values())


def task(entry: Answer) -> RayTask:
    return RayTask(
        task_id=text(entry.get("task_id")),
        attempt=integer(entry.get("attempt_number")),
        name=text(entry.get("name")),
        kind=text(entry.get("type")),
        state=text(entry.get("state")),
        job_id=text(entry.get("job_id")),
        actor_id=identity(entry.get("actor_id")),
        parent_task_id=identity(entry.get("parent_task_id")),
        node_id=identity(entry.get("node_id")),
        worker_id=identity(entry.get("worker_id")),
        pid=integer(entry.get("worker_pid")),
        required=resources(entry.get("required_resources")),
        times=_times(entry),
        death=death.of_task(entry),
        placement_group_id=identity(entry.get("placement_group_id")),
        runtime_env=_runtime_env(entry),
    )


def _runtime_env(entry: Answer) -> str:
    written = text((entry.get("runtime_env_info") or {}).get("serialized_runtime_env"))
    return "" if written == "{}" else written


def runtime_env(entry: Answer) -> RayRuntimeEnv:
    asked = entry.get("runtime_env") or {}
    parts = [f"{name}: {_asked_for(value)}" for name, value in asked.items() if value and not name.startswith("_")]
    return RayRuntimeEnv(
        serialized=json.dumps(asked, sort_keys=True),
        node_id=identity(entry.get("node_id")),
        built=entry.get("success"),
        what=", ".join(parts),
        error=text(entry.get("error")),
    )


def _asked_for(value: Any) -> str:
    """Package names, a directory, the names of variables: never their values."""
    if isinstance(value, Mapping):
        value = value.get("packages", list(value))
    shown = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}..."


def _times(entry: Answer) -> Mapping[str, float]:
    events = {text(event.get("state")): number(event.get("created_ms")) for event in listed(entry.get("events"))}
    found = {state: at / 1000 for state, at in events.items() if at}
    started = number(entry.get("start_time_ms"))
    if started and "RUNNING" not in found:
        found["RUNNING"] = started / 1000
    created = number(entry.get("creation_time_ms"))
    if created and not found:
        found["PENDING_ARGS_AVAIL"] = created / 1000
    return found


def placement_group(entry: Answer) -> RayPlacementGroup:
    stats = entry.get("stats") or {}
    return RayPlacementGroup(
        group_id=text(entry.get("placement_group_id")),
        name=text(entry.get("name")),
        state=text(entry.get("state")),
        job_id=identity(entry.get("creator_job_id")),
        bundles=tuple(resources(bundle.get("unit_resources")) for bundle in _bundles(entry.get("bundles"))),
        detached=bool(entry.get("is_detached")),
        why=text(stats.get("scheduling_state")),
    )


def _bundles(value: Any) -> Iterable[Answer]:
    return listed(list(value.values()) if isinstance(value, Mapping) else value)
