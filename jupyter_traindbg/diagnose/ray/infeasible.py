"""Actors, tasks and placement groups that ask for what no node of this cluster has: they would wait for ever."""

from __future__ import annotations

from collections.abc import Sequence

from ...language import text
from ...model import NotAvailable, RayPlacementGroup, RayWorker
from ..hang.words import alike
from .case import Hit, RayCase, Resources, hit
from .holders import fits_somewhere
from .peers import waiting_for
from .words import amount, bytes_words, names, resources_words

__all__ = ["rule"]

_SIZED = ("memory", "object_store_memory")


def rule(case: RayCase) -> list[Hit]:
    rows = case.states("infeasible")
    groups = alike(rows, lambda r: (r.job_id, r.kind, r.class_name, tuple(sorted(case.required(r).items()))))
    return [_hit(case, same) for same in groups] + [_group(case, g) for g in _impossible_groups(case)]


def _hit(case: RayCase, same: Sequence[RayWorker]) -> Hit:
    wanted = case.required(same[0])
    each = " each" if len(same) > 1 else ""
    asks = "ask" if len(same) > 1 else "asks"
    return hit(
        "ray_infeasible",
        "critical",
        text(
            "{names} {asks} for {resources_words}{each}, which no node has",
            names=names(same),
            asks=asks,
            resources_words=resources_words(wanted),
            each=each,
        ),
        same,
        evidence=[*_largest(case, wanted), *waiting_for(case, same)],
        cause=text(
            "Ray goes on waiting for a node that can have it; without an autoscaler none will ever come, and "
            "no error is raised."
        ),
        next_steps=_steps(case, wanted),
    )


def _largest(case: RayCase, wanted: Resources) -> list[str]:
    """For each resource that is lacking, what the node with the most of it has."""
    lines = []
    for resource, need in wanted.items():
        most = max((n.resources_total.get(resource, 0.0) for n in case.living_nodes), default=0.0)
        if need > most:
            said = bytes_words if resource in _SIZED else amount
            lines.append(
                text(
                    "{resource}: {said} wanted; the most that one of {count} living nodes has is {said2}",
                    resource=resource,
                    said=said(need),
                    count=len(case.living_nodes),
                    said2=said(most),
                )
            )
    if not lines:
        lines.append(
            text(
                "each of these is there, but not all on one node: {resources_words}",
                resources_words=resources_words(wanted),
            )
        )
    return lines


def _steps(case: RayCase, wanted: Resources) -> list[str]:
    lacking = [
        r for r, need in wanted.items() if need > max((n.resources_total.get(r, 0.0) for n in case.living_nodes), default=0)
    ]  # fmt: skip
    what = lacking[0] if lacking else "num_cpus"
    option = {"CPU": "num_cpus", "GPU": "num_gpus"}.get(what, what)
    return [
        text("Ask for less: lower `{option}` in `@ray.remote(...)` or `.options(...)`.", option=option),
        text(
            "Or add a node that has it, and start it with these resources (`ray start "
            "--num-cpus/--num-gpus/--resources`)."
        ),
    ]


def _impossible_groups(case: RayCase) -> list[RayPlacementGroup]:
    groups = case.cluster.placement_groups
    if isinstance(groups, NotAvailable) or not case.living_nodes:
        return []
    return [
        g
        for g in groups
        if g.state in ("PENDING", "INFEASIBLE", "RESCHEDULING")
        and (g.job_id is None or not case.running_jobs or g.job_id in case.running_jobs)
        and any(not fits_somewhere(case, b) for b in g.bundles)
    ]


def _group(case: RayCase, group: RayPlacementGroup) -> Hit:
    impossible = next(b for b in group.bundles if not fits_somewhere(case, b))
    name = group.name or group.group_id[:8]
    inside = [r for r in case.rows if _in_group(case, r, group.group_id)]
    return hit(
        "ray_infeasible",
        "critical",
        text(
            "Placement group {name} has a bundle of {resources_words}, which no node has",
            name=name,
            resources_words=resources_words(impossible),
        ),
        inside or [f"placement group {name}"],
        evidence=[*_largest(case, impossible), group.why and f"Ray: {group.why}"],
        cause=text("A placement group is made as a whole or not at all, so everything that is to run in it waits."),
        next_steps=_steps(case, impossible),
    )


def _in_group(case: RayCase, row: RayWorker, group_id: str) -> bool:
    actor = case.actors.get(row.actor_id or "")
    return actor is not None and actor.placement_group_id == group_id
