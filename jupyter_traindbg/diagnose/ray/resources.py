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
                "each needs {resources_words}; {and_list} cannot be had now",
                resources_words=resources_words(wanted),
                and_list=and_list(lacking),
            ),
            *(line for resource in lacking for line in holders_words(case, resource, first.job_id)),
            *blocked,
            *waiting_for(case, same),
        ],
        cause=text(
            "Actors keep their resources until they end; nobody who holds these is about to give them back by itself."
        ),
        next_steps=_steps(case, same, lacking, having),
        who=[r.who for r in same],
    )


def _title(
    case: RayCase, same: Sequence[RayWorker], lacking: Sequence[str], having: Sequence[Holder], since: float
) -> str:
    what = and_list([r for r in lacking if r not in ("memory", "object_store_memory")] or list(lacking))
    verb = "wait" if len(same) > 1 else "waits"
    held = text(", held by {names}", names=names(h.who for h in having)) if having else ""
    up = [p for p in case.peers(same[0]) if p.state not in ENDED | NOT_UP]
    of = text(" ({count} of {count2} are up)", count=len(up), count2=len(up) + len(same)) if up else ""
    return text(
        "{names} {verb} for {what}{held}, for {since}{of}",
        names=names(same),
        verb=verb,
        what=what,
        held=held,
        since=time_words(since),
        of=of,
    )


def _works(case: RayCase, having: Sequence[Holder]) -> bool:
    """Whether somebody who holds it gets on with something: it might end."""
    moving = {r.who for r in case.moving}
    return any(h.who in moving or h.kind == "task" for h in having)


def _held_by_waiters(case: RayCase, having: Sequence[Holder]) -> list[str]:
    held = [case.by_who[h.who] for h in having if h.who in case.by_who]
    idle = [r for r in held if r.state == "idle"]
    if held and len(idle) == len(held):
        return [text("all of them are idle: {names} have nothing to do and keep what they hold", names=names(idle))]
    blocked = [r for r in held if case.waits_on_ray(r)]
    if held and len(blocked) == len(held):
        return [text("all of them wait themselves in ray.get: {names}", names=names(blocked))]
    return []


def _steps(case: RayCase, same: Sequence[RayWorker], lacking: Sequence[str], having: Sequence[Holder]) -> list[str]:
    first, wanted = same[0], case.required(same[0])
    steps = []
    strangers = [h for h in having if h.job_id is not None and h.job_id != first.job_id]
    if strangers:
        steps.append(
            text(
                "End what is no longer needed: `traindbg ray-rescue --leftovers` lists what dead jobs left; "
                "{names} belong to other jobs.",
                names=names(h.who for h in strangers),
            )
        )
    up = [p for p in case.peers(first) if p.state not in ENDED | NOT_UP]
    if first.kind == "actor" and up:
        said = _arithmetic(case, first, lacking, len(up))
        steps.append(
            text(
                "Use {count} {class_name} instead of {count2}: {said}.",
                count=len(up),
                class_name=first.class_name,
                count2=len(up) + len(same),
                said=said,
            )
        )
    need = wanted.get("CPU", 0.0)
    if "CPU" in lacking and need:
        steps.append(
            text(
                "Or let each ask for less than {amount} CPU (`num_cpus=`), where they do not compute all the "
                "time; or add nodes.",
                amount=amount(need),
            )
        )
    else:
        steps.append(text("Or add nodes, or ask for less."))
    return steps


def _arithmetic(case: RayCase, row: RayWorker, lacking: Sequence[str], up: int) -> str:
    resource = lacking[0]
    need = amount(case.required(row)[resource])
    in_all, left = amount(total(case, resource)), amount(free(case, resource))
    return text(
        "{up} are up and hold {need} {resource} each; of {in_all} in the cluster {left} are free, too few for one more",
        up=up,
        need=need,
        resource=resource,
        in_all=in_all,
        left=left,
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
    held = text(", held by {names}", names=names(h.who for h in having)) if having else ""
    return hit(
        "ray_waiting_for_resources",
        "critical",
        text("Placement group {name} waits for {and_list}{held}", name=name, and_list=and_list(lacking), held=held),
        inside or [f"placement group {name}"],
        evidence=[
            *(line for r in lacking for line in holders_words(case, r, group.job_id)),
            group.why and f"Ray: {group.why}",
        ],
        cause=text(
            "A placement group is made as a whole or not at all, and nobody who holds these resources is "
            "doing anything."
        ),
        next_steps=[
            text(
                "End who holds them (`traindbg ray-rescue --leftovers`, `--kill-actor`), make its bundles "
                "smaller, or add nodes."
            )
        ],
    )
