"""Why a task or an actor has no place yet: no node is large enough (infeasible), or somebody else holds what it needs, and who."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...model import NotAvailable, RayCluster, RayNode, RayPlacementGroup
from . import words
from .naming import tasks_of, together

__all__ = ["Shortage", "Stock"]

CLOSE = 1e-6
MOST_HOLDERS = 50
"""So many are listed for each who waits; the words count all."""
PENDING = ("PENDING_CREATION", "DEPENDENCIES_UNREADY", "RESTARTING")
Resources = Mapping[str, float]


@dataclass(frozen=True)
class Shortage:
    """What is `missing` on the node that comes closest; `holders` have it."""

    infeasible: bool
    why: str
    missing: dict[str, float] = field(default_factory=dict)
    holders: tuple[str, ...] = ()


class Stock:
    """The resources of a cluster's living nodes, and who holds how much of them."""

    def __init__(self, cluster: RayCluster, who: Mapping[str, str]) -> None:
        self.nodes = [node for node in cluster.nodes if node.alive]
        self._known: dict[tuple[tuple[tuple[str, float], ...], str | None], Shortage | None] = {}
        groups = cluster.placement_groups
        self.groups = {} if isinstance(groups, NotAvailable) else {group.group_id: group for group in groups}
        self.held: list[tuple[str, Resources]] = [
            (who[actor.actor_id], actor.required)
            for actor in cluster.actors
            if actor.required and (actor.state == "ALIVE" or (actor.state in PENDING and actor.pid))
        ]
        self.held += [
            (who[task.task_id], task.required)
            for task in tasks_of(cluster)
            if task.actor_id is None and task.required and task.state.startswith(("RUNNING", "SUBMITTED", "GETTING"))
        ]

    def shortage(self, required: Resources, group_id: str | None = None) -> Shortage | None:
        """Why `required` has no place, or None where a node has room for it this moment (or that is not known)."""
        key = tuple(sorted(required.items())), group_id
        if key not in self._known:
            self._known[key] = self._shortage(required, group_id)
        return self._known[key]

    def _shortage(self, required: Resources, group_id: str | None) -> Shortage | None:
        group = self.groups.get(group_id or "")
        if group is not None and group.state != "CREATED":
            return self._of_group(group)
        needed = {name: n for name, n in required.items() if n > 0 and "_group_" not in name}
        if not needed or not self.nodes:
            return None
        able = [node for node in self.nodes if not _lacking(needed, node.resources_total)]
        if not able:
            return self._infeasible(needed)
        lacking = [
            _lacking(needed, node.resources_available)
            for node in able
            if not isinstance(node.resources_available, NotAvailable)
        ]
        if not lacking or any(not one for one in lacking):
            return None
        missing = min(lacking, key=lambda one: (len(one), sum(one.values())))
        holders = [name for name, held in self.held if any(held.get(resource, 0) > 0 for resource in missing)]
        if group_id is None:
            holders += [
                f"placement group {group.name or group.group_id[:6]}" for group in self._holding_groups(missing)
            ]
        return Shortage(False, self._missing_words(missing, holders), missing, tuple(holders[:MOST_HOLDERS]))

    def taken_by_nobody(self, required: Resources) -> int:
        """How many that require so much are being started: their resources are taken, and by nobody who is up yet."""
        taken: defaultdict[str, float] = defaultdict(float)
        for node in self.nodes:
            if isinstance(node.resources_available, NotAvailable):
                return 0
            for name, total in node.resources_total.items():
                taken[name] += total - node.resources_available.get(name, 0.0)
        for _, held in self.held:
            for name, n in held.items():
                taken[name] -= n
        for group in self._holding_groups(taken):
            for bundle in group.bundles:
                for name, n in bundle.items():
                    taken[name] -= n
        needed = {name: n for name, n in required.items() if n > 0}
        return max(0, min((int((taken[name] + CLOSE) / n) for name, n in needed.items()), default=0))

    def _holding_groups(self, missing: Mapping[str, float]) -> list[RayPlacementGroup]:
        return [
            g
            for g in self.groups.values()
            if g.state == "CREATED" and any(b.get(r, 0) > 0 for b in g.bundles for r in missing)
        ]

    def _of_group(self, group: RayPlacementGroup) -> Shortage:
        called = f"placement group {group.name or group.group_id[:6]}"
        if group.state == "REMOVED":
            return Shortage(True, f"its {called} has been removed")
        for bundle in group.bundles:
            found = self.shortage(bundle)
            if found is not None:
                return Shortage(
                    found.infeasible, f"its {called} is not placed yet: {found.why}", found.missing, found.holders
                )
        return Shortage(False, f"its {called} is not placed yet" + (f" ({group.why})" if group.why else ""))

    def _infeasible(self, needed: Resources) -> Shortage:
        largest = {name: max((n.resources_total.get(name, 0.0) for n in self.nodes), default=0.0) for name in needed}
        missing = {name: n - largest[name] for name, n in needed.items() if largest[name] + CLOSE < n}
        needs = words.resources(needed)
        if not missing:
            return Shortage(True, f"it needs {needs} on one node, and no node has all of that")
        parts = [_largest(self.nodes, name, largest[name]) for name in missing]
        return Shortage(True, f"it needs {needs}, and {' and '.join(parts)}", missing)

    def _missing_words(self, missing: Mapping[str, float], holders: Sequence[str]) -> str:
        lacks = f"{words.resources(missing)} more than is free"
        return f"{lacks}; held by {together(holders)}" if holders else lacks


def _lacking(needed: Resources, has: Resources) -> dict[str, float]:
    return {name: round(n - has.get(name, 0.0), 4) for name, n in needed.items() if has.get(name, 0.0) + CLOSE < n}


def _largest(nodes: Sequence[RayNode], name: str, most: float) -> str:
    if not most:
        return f"no node has {name}"
    node = next(n for n in nodes if n.resources_total.get(name, 0.0) == most)
    return f"the largest node has {words.amount(name, most)} ({node.ip})"
