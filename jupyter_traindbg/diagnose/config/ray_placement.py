"""What is asked of a Ray cluster against its nodes: workers that no node can hold, that do not all find a place, or wait for others."""

from __future__ import annotations

from collections.abc import Sequence

from ...language import text
from ...model import Finding, Plan, RayNode
from . import ray_demand as demand
from .ray_demand import Group, Resources
from .reading import finding

__all__ = ["rule"]

GROUPS = "https://docs.ray.io/en/latest/ray-core/scheduling/placement-group.html"


def rule(plan: Plan) -> list[Finding]:
    nodes, groups = plan.machine.ray_nodes, demand.demands(plan)
    if not nodes or not groups:
        return []
    for group in groups:
        if not any(demand.on_node(group.each, node.resources_total) for node in nodes):
            return [_infeasible(group, nodes)]
    found = demand.groups_that_fit(groups, [node.resources_total for node in nodes])
    short = next((i for i, group in enumerate(groups) if found[i] < group.count), None)
    if short is not None:
        return [_too_many(groups, found, short, nodes)]
    return _taken(groups, nodes)


def _infeasible(group: Group, nodes: Sequence[RayNode]) -> Finding:
    """Not one of them fits anywhere: Ray waits for a node that may never come."""
    wanted = ", ".join(demand.shown(*one) for one in (group.each or demand.PLACING).items())
    best = min(nodes, key=lambda node: demand.lacks(group.each, node.resources_total))
    misses = demand.misses(group.each, best.resources_total)
    return finding(
        "ray_infeasible",
        "critical",
        text("No node of the cluster can hold one worker of {wanted}", wanted=wanted),
        arithmetic=[*misses, *_nodes(group.each, nodes)],
        at=group.at,
        cause=text(
            "Ray calls that infeasible, says so once in the driver's log, and waits for a node that can: for "
            "ever, without an autoscaler. ray.get and ray.wait wait with it."
        ),
        steps=[
            text(
                "Ask for no more than one node has: {most}.",
                most=", ".join(_most(group.each, nodes)),
                most2="，".join(_most(group.each, nodes)),
            ),
            text(
                "A cluster that was to have GPUs or other resources and shows none was started without them: see "
                "`ray start --num-gpus`, `--resources`, and the container's devices."
            ),
        ],
        reference=demand.ACTORS,
    )


def _too_many(groups: Sequence[Group], found: Sequence[int], short: int, nodes: Sequence[RayNode]) -> Finding:
    group, fits = groups[short], found[short]
    each = " + ".join(demand.shown(*one) for one in group.each.items())
    packed = group.strategy in ("STRICT_PACK", "STRICT_SPREAD")
    compared = f"{group.words}{f' x ({each})' if each else ''}"
    compared += text(": {fits} of {count} find a place", fits=fits, count=group.count)
    if len(groups) > 1 and groups[0] == groups[-1]:  # verl's: one group for each node
        full = sum(count >= one.count for one, count in zip(groups, found, strict=True))
        compared = f"{len(groups)} x {group.words} ({group.strategy})" + text(
            ": {full} of {count} find a node", full=full, count=len(groups)
        )
    return finding(
        "ray_waiting_for_resources",
        "critical",
        text("The cluster cannot hold what is asked for") + f": {compared}",
        arithmetic=[compared, *_sums(group, nodes), *_nodes(group.each, nodes)],
        at=group.at,
        cause=_cause(group, packed),
        steps=_steps(group, fits, nodes),
        reference=GROUPS if packed else demand.ACTORS,
    )


def _cause(group: Group, packed: bool) -> str:
    if group.strategy == "STRICT_PACK":
        return text("STRICT_PACK puts all of them on one node, or none anywhere.")
    if packed:
        return text("STRICT_SPREAD puts each on a node of its own.")
    return text(
        "The others stay in PENDING_CREATION, without an error, while those that have a place live. "
        "Whoever waits for all waits for ever."
    )


def _steps(group: Group, fits: int, nodes: Sequence[RayNode]) -> list[str]:
    steps = []
    if fits:
        steps.append(text("Set {name} to {fits} at most.", name=group.name, fits=fits))
    anywhere = sum(demand.on_node(group.each, node.resources_total) for node in nodes)
    if group.strategy == "STRICT_PACK" and anywhere >= group.count:
        steps.append(text("Or use PACK: together the nodes have room, and PACK spreads where one is full."))
    elif group.strategy == "STRICT_SPREAD" and anywhere >= group.count:
        steps.append(text("Or use SPREAD: several may share a node."))
    if group.each.get("CPU", 0) >= 1 and "GPU" not in group.each:
        steps.append(
            text(
                "Or ask for fewer CPUs each: logical ones are only booked. How many the machines bear, one "
                "worker tells: --time-worker."
            )
        )
    return steps or [text("Add nodes, or ask for less.")]


def _taken(groups: Sequence[Group], nodes: Sequence[RayNode]) -> list[Finding]:
    """It would fit into the whole cluster, and others have taken what it needs."""
    rooms = [demand.free_of(node) for node in nodes]
    known = [room for room in rooms if room is not None]
    if len(known) < len(rooms):
        return []
    found = demand.groups_that_fit(groups, known)
    i = next((i for i, group in enumerate(groups) if found[i] < group.count), None)
    if i is None:
        return []
    group = groups[i]
    names = list(group.each or demand.PLACING)
    compared = text(
        "{words}: {found} of {count} find a place now", words=group.words, found=found[i], count=group.count
    )
    return [
        finding(
            "ray_waiting_for_resources",
            "warning",
            text("Others have taken what is needed") + f": {compared}",
            arithmetic=[
                compared,
                *(text("free: {line}", line=line) for line in demand.told(nodes, names, free=True)),
            ],
            at=group.at,
            cause=text(
                "The cluster is large enough, but others have their part of it now; the workers wait until these end."
            ),
            steps=[text("See who has it: `%ray_workers`, and of jobs that are over: `%ray_rescue --leftovers`.")],
            reference=demand.ACTORS,
        )
    ]


def _sums(group: Group, nodes: Sequence[RayNode]) -> list[str]:
    """What all of them need beside what all nodes have: 100 x 1 CPU = 100 CPU > 8 CPU."""
    lines = []
    for name, value in group.each.items():
        there = sum(node.resources_total.get(name, 0.0) for node in nodes)
        if value * group.count > there:
            whole = demand.shown(name, value * group.count)
            lines.append(f"{group.count} x {demand.shown(name, value)} = {whole} > {demand.shown(name, there)}")
    return lines


def _nodes(each: Resources, nodes: Sequence[RayNode]) -> list[str]:
    return demand.told(nodes, list(each or demand.PLACING))


def _most(each: Resources, nodes: Sequence[RayNode]) -> list[str]:
    """The most that any node has of each resource."""
    return [demand.shown(n, max(node.resources_total.get(n, 0.0) for node in nodes)) for n in each or demand.PLACING]
