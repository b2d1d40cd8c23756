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
    each = text(" each", "") if len(same) > 1 else ""
    asks = text("ask" if len(same) > 1 else "asks", "")
    return hit(
        "ray_infeasible",
        "critical",
        text(
            f"{names(same)} {asks} for {resources_words(wanted)}{each}, which no node has",
            f"{names(same)} 需要 {resources_words(wanted)}，没有任何节点能提供",
        ),
        same,
        evidence=[*_largest(case, wanted), *waiting_for(case, same)],
        cause=text(
            "Ray goes on waiting for a node that can have it; without an autoscaler none will ever come, and no error is raised.",
            "Ray 会一直等待能满足需求的节点；没有自动扩缩容时不会有这样的节点，也不会报错。",
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
                    f"{resource}: {said(need)} wanted; the most that one of {len(case.living_nodes)} living nodes has is {said(most)}",
                    f"{resource}：需要 {said(need)}；{len(case.living_nodes)} 个存活节点中单节点最多 {said(most)}",
                )
            )
    if not lines:
        lines.append(
            text(
                f"each of these is there, but not all on one node: {resources_words(wanted)}",
                f"各项资源分别存在，但没有一个节点同时具备：{resources_words(wanted)}",
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
        text(
            f"Ask for less: lower `{option}` in `@ray.remote(...)` or `.options(...)`.",
            f"减少需求：在 `@ray.remote(...)` 或 `.options(...)` 中降低 `{option}`。",
        ),
        text(
            "Or add a node that has it, and start it with these resources (`ray start --num-cpus/--num-gpus/--resources`).",
            "或添加具备该资源的节点，并在启动时声明（`ray start --num-cpus/--num-gpus/--resources`）。",
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
            f"Placement group {name} has a bundle of {resources_words(impossible)}, which no node has",
            f"放置组 {name} 有一个需要 {resources_words(impossible)} 的 bundle，没有任何节点能提供",
        ),
        inside or [f"placement group {name}"],
        evidence=[*_largest(case, impossible), group.why and f"Ray: {group.why}"],
        cause=text(
            "A placement group is made as a whole or not at all, so everything that is to run in it waits.",
            "放置组要么整体创建，要么不创建，因此其中的所有任务都在等待。",
        ),
        next_steps=_steps(case, impossible),
    )


def _in_group(case: RayCase, row: RayWorker, group_id: str) -> bool:
    actor = case.actors.get(row.actor_id or "")
    return actor is not None and actor.placement_group_id == group_id
