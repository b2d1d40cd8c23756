"""Those that are not up yet: why they have no place, or how far they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...model import NotAvailable, RayActor, RayTask, RayWorker
from .facts import NO_TIME, Facts, Said
from .words import for_time, known

__all__ = ["being_started", "creating", "placing"]

Resources = Mapping[str, float]


def creating(facts: Facts, actor: RayActor, asked: float | NotAvailable) -> Said:
    """An actor that has been `asked` for so long ago and is not up."""
    creation = facts.creations.get(actor.actor_id)
    if actor.pid:
        return _with_process(facts, creation, asked)
    if creation is not None and creation.state == "PENDING_ARGS_AVAIL":
        return Said("waiting for an argument", f"waiting for an argument of its __init__{for_time(asked)}", asked)
    required, group_id = actor.required, actor.placement_group_id
    if creation is not None:  # an actor without num_cpus runs with none, and is placed with one
        required, group_id = creation.required or required, creation.placement_group_id or group_id
    return placing(facts, required, group_id, asked)


def _with_process(facts: Facts, creation: RayTask | None, asked: float | NotAvailable) -> Said:
    if creation is None:
        return Said(
            "in __init__", "its process is up and it is not: in __init__, as far as the cluster can tell", NO_TIME
        )
    if creation.state.startswith("RUNNING"):
        began = facts.ago(creation.times.get("RUNNING"))
        return Said("in __init__", f"in __init__{for_time(began)}", began)
    return Said("starting", f"its process is up and about to call __init__{for_time(asked)}", asked)


def placing(facts: Facts, required: Resources, group_id: str | None, asked: float | NotAvailable) -> Said:
    """What waits for a place on a node, or has one and no process yet."""
    shortage = facts.stock.shortage(required, group_id)
    if shortage is None:
        return _started(asked)
    if shortage.infeasible:
        return Said("infeasible", f"can never start: {shortage.why}", asked, shortage)
    return Said("waiting for resources", f"waiting for resources{for_time(asked)}: {shortage.why}", asked, shortage)


def _started(asked: float | NotAvailable) -> Said:
    return Said("starting", f"has its resources; its process is being started{for_time(asked)}", asked)


def being_started(facts: Facts, rows: Sequence[RayWorker]) -> list[RayWorker]:
    """Among those that wait for the same resources, as many as hold them already are being started: those resources are gone from the
    nodes' stock, and nobody who is up has them. The oldest are served first.
    """
    found = list(rows)
    actors = {actor.actor_id: actor.required for actor in facts.cluster.actors}
    alike: defaultdict[tuple[tuple[str, float], ...], list[int]] = defaultdict(list)
    for i, row in enumerate(found):
        if row.state == "waiting for resources" and row.missing:
            task = facts.tasks.get(row.task_id or "")
            required = (task.required if task else {}) or actors.get(row.actor_id or "", {})
            alike[tuple(sorted(required.items()))].append(i)
    for required_items, waiting in alike.items():
        oldest = sorted(waiting, key=lambda i: -known(found[i].since_s))
        for i in oldest[: facts.stock.taken_by_nobody(dict(required_items))]:
            words = _started(found[i].since_s).words
            found[i] = replace(found[i], state="starting", words=words, missing={}, waits_for=())
    return found
