"""The rows of tasks: those that run, and those that are still waiting to."""

from __future__ import annotations

from ...model import NotAvailable, RayState, RayTask, RayWorker
from . import ends
from .facts import NEEDS_STACK, NO_PROCESS, Facts, Said, row
from .pending import placing
from .words import for_time

__all__ = ["task_row"]

_SAID: dict[str, tuple[RayState, str]] = {
    "PENDING_ARGS_AVAIL": ("waiting for an argument", "waiting for an argument that is not there yet"),
    "PENDING_ARGS_FETCH": ("waiting for an argument", "waiting for its arguments to be copied to its node"),
    "GETTING_AND_PINNING_ARGS": ("waiting for an argument", "waiting for its arguments to be loaded"),
    "PENDING_OBJ_STORE_MEM_AVAIL": ("waiting for resources", "waiting for room in its node's object store"),
    "SUBMITTED_TO_WORKER": ("starting", "handed to its worker"),
    "RUNNING": ("running", "running"),
    "RUNNING_IN_RAY_GET": ("blocked", "blocked in ray.get"),
    "RUNNING_IN_RAY_WAIT": ("blocked", "blocked in ray.wait"),
}
"""Ray's words, and ours."""


def task_row(facts: Facts, task: RayTask) -> RayWorker:
    over = task.state == "FAILED"
    return row(
        facts,
        facts.who[task.task_id],
        _said(facts, task),
        task.pid,
        task.node_id,
        kind="task",
        job_id=task.job_id,
        name=task.name,
        method=task.name,
        task_id=task.task_id,
        where=ends.place(task.death) if over else NEEDS_STACK if task.pid else NO_PROCESS,
        detail=ends.lines(task.death),
        executed=NotAvailable("a task is executed once"),
        queued=NotAvailable("a task has no queue"),
    )


def _said(facts: Facts, task: RayTask) -> Said:
    began = facts.ago(task.times.get(task.state, max(task.times.values(), default=None)))
    if task.state == "FAILED":
        return ends.dead(task.death, began, task.attempt)
    if task.state == "PENDING_NODE_ASSIGNMENT":
        return placing(facts, task.required, task.placement_group_id, began)
    if task.state not in _SAID:
        return Said("not known", f"Ray calls it {task.state}", began)
    state, words = _SAID[task.state]
    return Said(state, f"{words}{for_time(began)}", began)
