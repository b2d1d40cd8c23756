"""Who holds the cluster's resources, and who could ever have them: plain arithmetic over what Ray says. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...language import text
from ...model import NotAvailable, RayActor, RayPlacementGroup
from .case import RayCase, Resources
from .words import amount, bytes_words, names

__all__ = ["Holder", "fits_somewhere", "free", "holders", "holders_words", "scarce", "total"]

_SIZED = ("memory", "object_store_memory")
_TINY = 1e-6


@dataclass(frozen=True)
class Holder:
    """Who has `held` of a resource. ``who`` as rows call it; ``kind`` and ``job_id`` to tell one's own from strangers."""

    who: str
    kind: str
    job_id: str | None
    held: float
    actor: RayActor | None = None


def fits_somewhere(case: RayCase, wanted: Resources) -> bool:
    """Whether some living node could have it, were it empty."""
    return any(all(n.resources_total.get(k, 0.0) + _TINY >= v for k, v in wanted.items()) for n in case.living_nodes)


def scarce(case: RayCase, wanted: Resources) -> list[str]:
    """The resources of which no node has enough left now; empty where Ray does not say, or where some node has all of them."""
    nodes = [n for n in case.living_nodes if not isinstance(n.resources_available, NotAvailable)]
    if not nodes or any(all(_left(n.resources_available, k) + _TINY >= v for k, v in wanted.items()) for n in nodes):
        return []
    short = [k for k, v in wanted.items() if v and all(_left(n.resources_available, k) + _TINY < v for n in nodes)]
    return short or [k for k, v in wanted.items() if v]


def _left(available: object, resource: str) -> float:
    return float(available.get(resource, 0.0)) if isinstance(available, dict) else 0.0


def total(case: RayCase, resource: str) -> float:
    return sum(n.resources_total.get(resource, 0.0) for n in case.living_nodes)


def free(case: RayCase, resource: str) -> float:
    return sum(_left(n.resources_available, resource) for n in case.living_nodes)


def holders(case: RayCase, resource: str) -> list[Holder]:
    """Who has some of it, the ones with the most first: living actors and running tasks outside placement groups, and the groups."""
    by_id = {r.actor_id: r.who for r in case.workers.workers if r.actor_id}
    found = [
        Holder(by_id.get(a.actor_id, a.name or a.class_name), "actor", a.job_id, held, a)
        for a in case.cluster.actors
        if a.pid and a.state != "DEAD" and not a.placement_group_id and (held := a.required.get(resource, 0.0)) > 0
    ]
    names_of_tasks = {r.task_id: r.who for r in case.workers.workers if r.task_id and r.kind == "task"}
    found += [
        Holder(names_of_tasks.get(t.task_id, t.name), "task", t.job_id, held)
        for t in case.tasks
        if t.kind == "NORMAL_TASK"
        and t.state.startswith("RUNNING")
        and not t.placement_group_id
        and (held := t.required.get(resource, 0.0)) > 0
    ]
    found += [
        Holder(_group_name(g), "placement group", g.job_id, held)
        for g in _groups(case)
        if g.state == "CREATED" and (held := sum(b.get(resource, 0.0) for b in g.bundles)) > 0
    ]
    return sorted(found, key=lambda h: (-h.held, h.who))


def _groups(case: RayCase) -> Sequence[RayPlacementGroup]:
    groups = case.cluster.placement_groups
    return () if isinstance(groups, NotAvailable) else groups


def _group_name(group: RayPlacementGroup) -> str:
    named = group.name or group.group_id[:8]
    return text("placement group {named}", named=named)


def holders_words(case: RayCase, resource: str, job_id: str | None) -> list[str]:
    """``CPU: 4 in all, 0 free; 4 held by Collector[0-3]``, those of other jobs on a line of their own."""
    said = bytes_words if resource in _SIZED else amount
    lines = [
        text(
            "{resource}: {said} in all living nodes, {said2} free",
            resource=resource,
            said=said(total(case, resource)),
            said2=said(free(case, resource)),
        )
    ]
    by_job: dict[str | None, list[Holder]] = {}
    for holder in holders(case, resource):
        by_job.setdefault(holder.job_id, []).append(holder)
    for job, group in by_job.items():
        held = said(sum(h.held for h in group))
        of = "" if job == job_id or job is None else text(" of job {job}", job=job)
        ended = job is not None and bool(case.running_jobs) and job not in case.running_jobs
        over = text(", which has ended") if ended and of else ""
        lines.append(
            text(
                "{resource}: {held} held by {names}{of}{over}",
                resource=resource,
                held=held,
                names=names(h.who for h in group),
                of=of,
                over=over,
            )
        )
    return lines
