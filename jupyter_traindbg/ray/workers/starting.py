"""What keeps those that have their resources and no process yet: a runtime_env, their turn, importing, or registering."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from ...model import RayBuild, RayComing, RayRuntimeEnv, RayWorker
from ...words.durations import age
from .facts import Facts
from .naming import tasks_of
from .words import known

__all__ = ["with_builds", "with_coming", "with_environments"]

REGISTERS_S = 3.0
"""Registering takes a tenth of a second; what takes longer is a state of its own."""
BEGINS_S = 3.0


def with_environments(facts: Facts, rows: Sequence[RayWorker]) -> list[RayWorker]:
    """The rows with those told that wait for a runtime_env being built."""
    building = {env.serialized: env for env in facts.cluster.runtime_envs if env.built is None}
    failed = {env.serialized: env for env in facts.cluster.runtime_envs if env.built is False}
    if not building and not failed:
        return list(rows)
    return [
        _with_environment(row, wanted, building, failed) for row, wanted in zip(rows, _wanted(facts, rows), strict=True)
    ]


def _wanted(facts: Facts, rows: Sequence[RayWorker]) -> list[str]:
    """The runtime_env that each of the rows waits for, as far as it may be that; empty where it has a process, or asks for none."""
    tasks = {task.task_id: task for task in tasks_of(facts.cluster)}
    waiting = [tasks.get(row.task_id or "") if row.state == "starting" and not row.pid else None for row in rows]
    return [_canonical(task.runtime_env) if task is not None else "" for task in waiting]


def _with_environment(
    row: RayWorker, wanted: str, building: dict[str, RayRuntimeEnv], failed: dict[str, RayRuntimeEnv]
) -> RayWorker:
    if wanted in building:
        return _waiting(row, f" to be built: {building[wanted].what}")
    if wanted in failed:
        return _waiting(row, f", whose building has failed and is tried again: {failed[wanted].error}")
    return row


def _waiting(row: RayWorker, how: str) -> RayWorker:
    words = f"waiting for {age(known(row.since_s))} for its runtime_env{how}"
    return replace(row, state="building runtime_env", words=words)


def with_builds(facts: Facts, rows: Sequence[RayWorker], builds: Sequence[RayBuild]) -> list[RayWorker]:
    """The rows with those told whose runtime_env Ray has not told of (its agent is busy, or the dashboard down), while environments are
    built on the nodes. Nobody can tell which one is whose.
    """
    if not builds:
        return list(rows)
    told = {"", *(env.serialized for env in facts.cluster.runtime_envs)}
    oldest = max(builds, key=lambda build: build.age_s)
    node = facts.nodes.get(oldest.node_id)
    on = f" on {node.name or node.ip}" if node is not None else ""
    by = f" to be built: `{oldest.doing}` has been running{on} for {age(oldest.age_s)}"
    return [
        row if wanted in told else replace(_waiting(row, by), tier=1)
        for row, wanted in zip(rows, _wanted(facts, rows), strict=True)
    ]


def _canonical(written: str) -> str:
    try:
        return json.dumps(json.loads(written), sort_keys=True)
    except ValueError:
        return written


def with_coming(rows: Sequence[RayWorker], coming: Sequence[RayComing]) -> list[RayWorker]:
    """The rows with what is known of the processes that come up. Nobody can tell which of them will be whose."""
    waiting = [row for row in rows if row.state == "starting" and not row.pid]
    if not waiting:
        return list(rows)
    stuck = [one for one in coming if one.phase == "registering" and one.age_s > REGISTERS_S]
    registering = bool(coming) and len(stuck) == len(coming)
    return [_with_coming(row, coming, registering) if row in waiting else row for row in rows]


def _with_coming(row: RayWorker, coming: Sequence[RayComing], registering: bool) -> RayWorker:
    for_s = f" for {age(known(row.since_s))}"
    if not coming:
        if known(row.since_s) < BEGINS_S:
            return row
        return replace(row, tier=1, words=f"has its resources{for_s}: no process is being started for it on any node")
    oldest = max(one.age_s for one in coming)
    n = len(coming)
    if registering:
        words = f"registering{for_s}: {_processes(n)} up and cannot register with {'its' if n == 1 else 'their'} node, for {age(oldest)}"
        return replace(row, state="registering", tier=1, words=words)
    phases = ", ".join(
        f"{sum(one.phase == phase for one in coming)} {phase}"
        for phase in ("importing", "registering")
        if any(one.phase == phase for one in coming)
    )
    words = f"has its resources{for_s}: {_processes(n)} coming up ({phases or 'not looked at'}), the oldest for {age(oldest)}"
    return replace(row, tier=1, words=words)


def _processes(n: int) -> str:
    return "1 process is" if n == 1 else f"{n} processes are"
