"""What a run asks a Ray cluster for, and how much of that its nodes can hold: Ray's own arithmetic, without its scheduler.

Ray books *logical* resources: an actor that says nothing needs one CPU to be placed and none to run, so that any number of them fits on
a node that has a CPU at all; one that says ``num_cpus=1`` keeps it for as long as it lives. Several workers may share a GPU, one may
not be spread over parts of two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...language import text
from ...model import Given, NotAvailable, Plan, RayNode
from .reading import gib, on, positive, product, shares_gpus

__all__ = [
    "ACTORS",
    "Group",
    "Resources",
    "demands",
    "free_of",
    "groups_that_fit",
    "hosts",
    "lacks",
    "misses",
    "on_node",
    "part_of_one",
    "shown",
    "told",
    "workers_of",
]

Resources = Mapping[str, float]
ACTORS = "https://docs.ray.io/en/latest/ray-core/scheduling/resources.html"
PLACING: Resources = {"CPU": 1.0}
"""What an actor without requirements needs of a node: for being placed there, no longer."""
BYTES = ("memory", "object_store_memory")
SMALLEST = 0.0001
"""Ray counts resources in such steps."""


@dataclass(frozen=True)
class Group:
    """Bundles that are asked for together: workers, or a placement group."""

    count: int
    each: Resources
    """What every one of them keeps while it runs; empty: only `PLACING` has to be there."""
    strategy: str
    at: Sequence[Given[Any] | None]
    words: str
    """What it is, in the configuration's own words: ``num_workers 100``."""

    @property
    def name(self) -> str:
        """Of the key that says how many."""
        return self.at[0].name if self.at and self.at[0] is not None else text("their number")


# --- what is asked for -------------------------------------------------------------------------------------------------


def demands(plan: Plan) -> list[Group]:
    """The groups that a run asks for at once; none where the configuration does not say how many workers there are."""
    if positive(plan.ray_workers):
        return [workers_of(plan)]
    if "verl" in plan.dialects and positive(plan.processes_per_node) and plan.processes_per_node is not None:
        each = plan.processes_per_node
        group = Group(
            each.value, {"CPU": 1.0, "GPU": 1.0}, "STRICT_PACK", (each, plan.nodes), f"{each.name} {each.value}"
        )
        return [group] * min(product(plan.nodes), 10_000)
    return list(_of_openrlhf(plan)) if "openrlhf" in plan.dialects else []


def workers_of(plan: Plan) -> Group:
    """The workers of a `plan` that says how many there are."""
    assert plan.ray_workers is not None
    given = {"CPU": plan.ray_cpus, "GPU": plan.ray_gpus, "memory": plan.ray_memory, **plan.ray_custom}
    each = {name: float(value.value) for name, value in given.items() if value is not None and value.value > 0}
    if on(plan.ray_use_gpu):
        each.setdefault("GPU", 1.0)
    elif plan.ray_use_gpu is not None and plan.ray_cpus is None:
        each.setdefault("CPU", 1.0)  # Ray Train's own default; of an actor it would be none
    strategy = plan.ray_strategy.value.upper() if plan.ray_strategy is not None else "PACK"
    words = f"{plan.ray_workers.name} {plan.ray_workers.value}"
    return Group(plan.ray_workers.value, each, strategy, (plan.ray_workers, *given.values(), plan.ray_strategy), words)


def _of_openrlhf(plan: Plan) -> list[Group]:
    """Its actors, and the engines where these have GPUs of their own; with critic and reward models it is more."""
    bundle, groups = {"CPU": 1.0, "GPU": 1.0}, []
    each = plan.processes_per_node
    if each is not None and each.value > 0:
        count = product(plan.nodes) * each.value
        groups.append(Group(count, bundle, "PACK", (each, plan.nodes), f"{product(plan.nodes)} x {each}"))
    engines = plan.engines
    if engines is not None and engines.value > 0 and not shares_gpus(plan):
        size = product(plan.engine_tensor_parallel)
        words = f"{engines} x {size}"
        groups.append(Group(engines.value * size, bundle, "PACK", (engines, plan.engine_tensor_parallel), words))
    return groups


# --- what there is -----------------------------------------------------------------------------------------------------


def hosts(nodes: Sequence[RayNode]) -> list[RayNode]:
    """One node of each machine: several Ray nodes may run on one, and its cores and memory count once."""
    return list({(node.ip, node.name if not node.ip else ""): node for node in nodes}.values())


def free_of(node: RayNode) -> Resources | None:
    """What is not booked by others at present; None where the cluster does not say."""
    return None if isinstance(node.resources_available, NotAvailable) else node.resources_available


def on_node(each: Resources, has: Resources) -> int:
    """How many such bundles a node with these resources holds; 10**9 where nothing bounds it."""
    if not each:
        return 10**9 if all(has.get(name, 0) >= value for name, value in PLACING.items()) else 0
    return min(_of_one(name, value, has.get(name, 0.0)) for name, value in each.items())


def _of_one(name: str, value: float, there: float) -> int:
    if name == "GPU" and value < 1:  # parts of one device each
        return int(there + SMALLEST) * int(1 / value + SMALLEST)
    return max(0, math.floor(there / value + SMALLEST))


def part_of_one(sharing: int) -> float:
    """What each of so many may ask for that are to share one device, in Ray's steps: rounded up, the last one would not fit."""
    return math.floor(1 / SMALLEST / sharing + SMALLEST) * SMALLEST


def misses(each: Resources, has: Resources) -> list[str]:
    """Of which resource a node has too little for a single bundle, in words."""
    wanted = each or PLACING
    return [f"{shown(n, v)} > {shown(n, has.get(n, 0.0))}" for n, v in wanted.items() if has.get(n, 0.0) < v - SMALLEST]


def lacks(each: Resources, has: Resources) -> float:
    """By how much a node is too small for a single bundle: the missing parts of each resource, added up."""
    return sum(max(0.0, 1 - has.get(name, 0.0) / value) for name, value in (each or PLACING).items())


def shown(name: str, value: float) -> str:
    """``4 CPU``, ``2.0 GiB memory``."""
    return f"{gib(value)} {name.replace('_', ' ')}" if name in BYTES else f"{value:g} {name}"


def groups_that_fit(groups: Sequence[Group], rooms: Sequence[Resources]) -> list[int]:
    """How many bundles of each group find a place, one group after the other, on nodes that have `rooms`.

    A placement group is placed whole or not at all. The order of Ray's own scheduler is not known beforehand: within a group all bundles
    are alike, so that it does not matter there.
    """
    left = [dict(room) for room in rooms]
    return [_place(group, left) for group in groups]


def _place(group: Group, left: list[dict[str, float]]) -> int:
    holds = [on_node(group.each, room) for room in left]
    if group.strategy == "STRICT_PACK":
        fitting = [i for i, most in enumerate(holds) if most >= group.count]
        chosen = {min(fitting, key=lambda i: holds[i]): group.count} if fitting else {}
        found = group.count if fitting else max(holds, default=0)
    elif group.strategy == "STRICT_SPREAD":
        able = [i for i, most in enumerate(holds) if most > 0][: group.count]
        chosen, found = dict.fromkeys(able, 1), len(able)
    else:
        chosen, rest = {}, group.count
        for i in sorted(range(len(left)), key=lambda i: -holds[i]):
            chosen[i] = min(rest, holds[i])
            rest -= chosen[i]
        found = group.count - rest
    for i, count in chosen.items():
        _take(left[i], group.each, count)
    return min(found, group.count)


def _take(room: dict[str, float], each: Resources, count: int) -> None:
    for name, value in each.items():
        whole = name == "GPU" and value < 1
        used = math.ceil(count / int(1 / value + SMALLEST)) if whole else count * value
        room[name] = room.get(name, 0.0) - used


def told(nodes: Sequence[RayNode], names: Sequence[str], *, free: bool = False) -> list[str]:
    """The nodes with these resources, a line each; equal ones once."""
    lines: dict[str, int] = {}
    for node in nodes:
        has = (free_of(node) or {}) if free else node.resources_total
        line = ", ".join(shown(name, has.get(name, 0.0)) for name in names)
        lines[line] = lines.get(line, 0) + 1
    each = [
        text("{count} node{value}: {line}", count=count, value="s" * (count > 1), line=line)
        for line, count in lines.items()
    ]
    return each[:8]
