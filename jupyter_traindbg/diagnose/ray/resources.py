"""Actors, tasks and placement groups that wait for resources which others hold, and who those are.

A queue of tasks is how Ray works and no finding, as long as tasks hold what they wait for: those end. An actor keeps what it holds as
long as it lives, so who waits for an actor's share waits for its end.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...language import text
from ...model import NotAvailable, RayPlacementGroup, RayWorker
from ...words.durations import time_words
from ..hang.words import alike, and_list
from .case import ENDED, NOT_UP, Hit, RayCase, hit, known
from .holders import Holder, fits_somewhere, free, holders, holders_words, scarce, total
from .peers import waiting_for
from .words import amount, names, resources_words

__all__ = ["rule"]

ACTOR_S, TASK_S = 3.0, 10.0
"""Ray needs a moment to place what there is room for."""


def rule(case: RayCase) -> list[Hit]:
    hits = []
    waiting = case.states("waiting for resources")
    for same in alike(waiting, lambda r: (r.job_id, r.kind, r.class_name, tuple(sorted(case.required(r).items())))):
        if (found := _rows(case, same)) is not None:
            hits.append(found)
    return hits + [_group(case, g) for g in _waiting_groups(case)]


def _rows(case: RayCase, same: Sequence[RayWorker]) -> Hit | None:
    first = same[0]
    wanted = case.required(first)
    since = max((known(r.since_s) or 0.0 for r in same), default=0.0)
    lacking = scarce(case, wanted)
    if not lacking or since < (TASK_S if first.kind == "task" else ACTOR_S):
        return None
    having = [h for resource in lacking for h in holders(case, resource)]
    if first.kind == "task" and any(h.kind == "task" for h in having):
        return None  # these end, and then it is their turn
    blocked = _held_by_waiters(case, having)
    return hit(
        "ray_waiting_for_resources",
        "critical" if not _works(case, having) else "warning",
        _title(case, same, lacking, having, since),
        same,
        evidence=[
            text(
                f"each needs {resources_words(wanted)}; {and_list(lacking)} cannot be had now",
                f"每个需要 {resources_words(wanted)}；{and_list(lacking)} 目前无法满足",
            ),
            *(line for resource in lacking for line in holders_words(case, resource, first.job_id)),
            *blocked,
            *waiting_for(case, same),
        ],
        cause=text(
            "Actors keep their resources until they end; nobody who holds these is about to give them back by itself.",
            "actor 在结束前一直占用资源；占用者不会自行归还。",
        ),
        next_steps=_steps(case, same, lacking, having),
        who=[r.who for r in same],
    )


def _title(
    case: RayCase, same: Sequence[RayWorker], lacking: Sequence[str], having: Sequence[Holder], since: float
) -> str:
    what = and_list([r for r in lacking if r not in ("memory", "object_store_memory")] or list(lacking))
    verb = "wait" if len(same) > 1 else "waits"
    held = (
        text(f", held by {names(h.who for h in having)}", f"，由 {names(h.who for h in having)} 占用") if having else ""
    )
    up = [p for p in case.peers(same[0]) if p.state not in ENDED | NOT_UP]
    of = (
        text(f" ({len(up)} of {len(up) + len(same)} are up)", f"（{len(up) + len(same)} 个中已启动 {len(up)} 个）")
        if up
        else ""
    )
    return text(
        f"{names(same)} {verb} for {what}{held}, for {time_words(since)}{of}",
        f"{names(same)} 等待 {what} 已 {time_words(since)}{held}{of}",
    )


def _works(case: RayCase, having: Sequence[Holder]) -> bool:
    """Whether somebody who holds it gets on with something: it might end."""
    moving = {r.who for r in case.moving}
    return any(h.who in moving or h.kind == "task" for h in having)


def _held_by_waiters(case: RayCase, having: Sequence[Holder]) -> list[str]:
    held = [case.by_who[h.who] for h in having if h.who in case.by_who]
    idle = [r for r in held if r.state == "idle"]
    if held and len(idle) == len(held):
        return [
            text(
                f"all of them are idle: {names(idle)} have nothing to do and keep what they hold",
                f"它们全部空闲：{names(idle)} 没有任务，却占用着资源",
            )
        ]
    blocked = [r for r in held if case.waits_on_ray(r)]
    if held and len(blocked) == len(held):
        return [
            text(
                f"all of them wait themselves in ray.get: {names(blocked)}",
                f"它们自身都在 ray.get 中等待：{names(blocked)}",
            )
        ]
    return []


def _steps(case: RayCase, same: Sequence[RayWorker], lacking: Sequence[str], having: Sequence[Holder]) -> list[str]:
    first, wanted = same[0], case.required(same[0])
    steps = []
    strangers = [h for h in having if h.job_id is not None and h.job_id != first.job_id]
    if strangers:
        steps.append(
            text(
                f"End what is no longer needed: `traindbg ray-rescue --leftovers` lists what dead jobs left; "
                f"{names(h.who for h in strangers)} belong to other jobs.",
                f"结束不再需要的占用者：`traindbg ray-rescue --leftovers` 列出已结束作业的残留；"
                f"{names(h.who for h in strangers)} 属于其他作业。",
            )
        )
    up = [p for p in case.peers(first) if p.state not in ENDED | NOT_UP]
    if first.kind == "actor" and up:
        said = _arithmetic(case, first, lacking, len(up))
        steps.append(
            text(
                f"Use {len(up)} {first.class_name} instead of {len(up) + len(same)}: {said}.",
                f"将 {first.class_name} 数量从 {len(up) + len(same)} 改为 {len(up)}：{said}。",
            )
        )
    need = wanted.get("CPU", 0.0)
    if "CPU" in lacking and need:
        steps.append(
            text(
                f"Or let each ask for less than {amount(need)} CPU (`num_cpus=`), where they do not compute all the time; or add nodes.",
                f"或让每个请求少于 {amount(need)} 个 CPU（`num_cpus=`），前提是它们并非一直在计算；或添加节点。",
            )
        )
    else:
        steps.append(text("Or add nodes, or ask for less.", "或添加节点，或减少需求。"))
    return steps


def _arithmetic(case: RayCase, row: RayWorker, lacking: Sequence[str], up: int) -> str:
    resource = lacking[0]
    need = amount(case.required(row)[resource])
    in_all, left = amount(total(case, resource)), amount(free(case, resource))
    return text(
        f"{up} are up and hold {need} {resource} each; of {in_all} in the cluster {left} are free, too few for one more",
        f"已启动 {up} 个，每个占用 {need} {resource}；集群共 {in_all}，空闲 {left}，不足以再启动一个",
    )


# --- placement groups ----------------------------------------------------------------------------------------------


def _waiting_groups(case: RayCase) -> list[RayPlacementGroup]:
    """Those that would fit into the empty cluster, of a job that stands still meanwhile: one that works may be waiting its turn."""
    groups = case.cluster.placement_groups
    if isinstance(groups, NotAvailable) or not case.stands_still:
        return []
    return [
        g
        for g in groups
        if g.state in ("PENDING", "RESCHEDULING")
        and g.job_id in case.running_jobs
        and all(fits_somewhere(case, b) for b in g.bundles)
        and any(scarce(case, b) for b in g.bundles)
    ]


def _group(case: RayCase, group: RayPlacementGroup) -> Hit:
    lacking = list(dict.fromkeys(r for b in group.bundles for r in scarce(case, b)))
    having = [h for r in lacking for h in holders(case, r)]
    inside = [
        r for r in case.rows if (a := case.actors.get(r.actor_id or "")) and a.placement_group_id == group.group_id
    ]
    name = group.name or group.group_id[:8]
    held = (
        text(f", held by {names(h.who for h in having)}", f"，由 {names(h.who for h in having)} 占用") if having else ""
    )
    return hit(
        "ray_waiting_for_resources",
        "critical",
        text(
            f"Placement group {name} waits for {and_list(lacking)}{held}",
            f"放置组 {name} 等待 {and_list(lacking)}{held}",
        ),
        inside or [f"placement group {name}"],
        evidence=[
            *(line for r in lacking for line in holders_words(case, r, group.job_id)),
            group.why and f"Ray: {group.why}",
        ],
        cause=text(
            "A placement group is made as a whole or not at all, and nobody who holds these resources is doing anything.",
            "放置组要么整体创建，要么不创建，而占用这些资源者没有在工作。",
        ),
        next_steps=[
            text(
                "End who holds them (`traindbg ray-rescue --leftovers`, `--kill-actor`), make its bundles smaller, or add nodes.",
                "结束占用者（`traindbg ray-rescue --leftovers`、`--kill-actor`），缩小 bundle，或添加节点。",
            )
        ],
    )
