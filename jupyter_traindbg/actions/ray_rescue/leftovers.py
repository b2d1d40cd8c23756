"""What dead jobs left in a cluster: detached actors and placement groups, which no job's end removes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...attach.ray import hosts as ways
from ...errors import NoTarget
from ...language import text
from ...model import NotAvailable, RayPlacementGroup, RayRescue
from ...ray.workers import naming
from .case import Case
from .killing import CHANGE, killed

__all__ = ["release"]

SERVE = "serve"
"""The namespace of Ray Serve, whose actors are detached because they are meant to stay."""
SHORTEST_ID = 6
REMOVED = "REMOVED"


def release(case: Case, only: Sequence[str] | None, *, yes: bool) -> list[RayRescue]:
    """List what dead jobs left; where `yes`, remove those of them whose ids or names are in `only`, or all where that is empty.

    What belongs to Ray Serve is removed only where it is named. None for `only`: a list, whatever `yes` says.
    """
    found = [*_actors(case), *_groups(case)]
    for words in only or ():
        if not any(_is_called(item, words) for item in found):
            there = text(", ").join(f"{item.who} ({item.ident})" for item in found) or text("nothing")
            raise NoTarget(
                text("no dead job has left {words}", words=words), text("what dead jobs left: {there}", there=there)
            )
    chosen = [item if _is_meant(item, only or ()) else replace(item, state="left") for item in found]
    if not yes or only is None:
        return chosen
    return [_removed(case, item) if item.state == "planned" else item for item in chosen]


def _is_called(item: RayRescue, words: str) -> bool:
    return words == item.who or (len(words) >= SHORTEST_ID and item.ident.startswith(words.lower()))


def _is_meant(item: RayRescue, only: Sequence[str]) -> bool:
    return any(_is_called(item, words) for words in only) if only else not item.note


def _actors(case: Case) -> list[RayRescue]:
    who = naming.names(case.cluster)
    return [
        RayRescue(
            "actor",
            who.get(actor.actor_id, actor.actor_id),
            actor.actor_id,
            f"{actor.state}, pid {actor.pid}, of job {actor.job_id}, which has ended" + _holds(actor.required),
            "kill it for good",
            note="it belongs to Ray Serve, and is meant to stay: name it to release it"
            if actor.namespace == SERVE
            else "",
        )
        for actor in case.cluster.actors
        if actor.detached and actor.state != "DEAD" and _has_ended(case, actor.job_id)
    ]


def _groups(case: Case) -> list[RayRescue]:
    groups = case.cluster.placement_groups
    if isinstance(groups, NotAvailable):
        case.notes.append(f"its placement groups are not known: {groups.reason}")
        return []
    return [
        RayRescue(
            "placement group",
            group.name or f"placement group {group.group_id[:SHORTEST_ID]}",
            group.group_id,
            f"{group.state}, of job {group.job_id}, which has ended" + _holds(_sum(group)),
            "remove it: what it reserves is free again, and what runs in it ends",
        )
        for group in groups
        if group.state != REMOVED and group.job_id is not None and _has_ended(case, group.job_id)
    ]


def _has_ended(case: Case, job_id: str) -> bool:
    """True for a job that the cluster knows to have ended, and for none that it does not know."""
    if case.job not in (None, job_id):
        return False
    job = next((job for job in case.cluster.jobs if job.job_id == job_id), None)
    return job is not None and not job.running


def _sum(group: RayPlacementGroup) -> dict[str, float]:
    total: dict[str, float] = {}
    for bundle in group.bundles:
        for name, amount in bundle.items():
            total[name] = total.get(name, 0.0) + amount
    return total


def _holds(resources: Mapping[str, float]) -> str:

    words = ", ".join(f"{amount:g} {name}" for name, amount in resources.items() if amount)
    return f"; holds {words}" if words else ""


def _removed(case: Case, item: RayRescue) -> RayRescue:
    if item.kind == "actor":
        return killed(case, item)
    began = time.monotonic()
    fields = {"placement_group_id": bytes.fromhex(item.ident)}
    ways.ask(
        case.address,
        CHANGE,
        case.address,
        "PlacementGroupInfo",
        "RemovePlacementGroup",
        fields,
        case.left_s,
        deadline_s=case.left_s,
    )

    def is_gone(_: object) -> bool:
        groups = case.cluster.placement_groups
        known = () if isinstance(groups, NotAvailable) else groups
        return not any(group.group_id == item.ident and group.state != REMOVED for group in known)

    good = case.until(is_gone)
    note = "" if good else "the cluster was told, and has not done it in time"
    return replace(
        item,
        state="verified" if good else "not done",
        after=REMOVED if good else "still there",
        took_s=time.monotonic() - began,
        note=note,
    )
