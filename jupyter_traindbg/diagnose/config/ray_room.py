"""Ray workers against what the machines really have: cores and memory, which Ray's bookkeeping does not look at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...language import text
from ...model import Finding, Plan, RayNode
from . import ray_demand as demand
from .ray_demand import Group
from .reading import finding, gib, positive

__all__ = ["cores_of", "rule", "that_fit_into_memory"]

MEMORY = "https://docs.ray.io/en/latest/ray-core/scheduling/ray-oom-prevention.html"
THREADS = "https://docs.ray.io/en/latest/ray-core/scheduling/resources.html#physical-resources-and-logical-resources"
KILLED_ABOVE = 0.95
"""The share of a node's memory from which on Ray kills workers (RAY_memory_usage_threshold)."""
WORKER_BYTES = 150 * 2**20
"""A Ray worker with a small program of its own, roughly: 100 MiB of it are Ray and Python. With torch it is 400 MiB."""


def rule(plan: Plan) -> list[Finding]:
    nodes = plan.machine.ray_nodes
    if not nodes or not positive(plan.ray_workers):
        return []
    group = demand.workers_of(plan)
    return [*_cores(plan, group), *_memory(plan, group)]


def cores_of(nodes: Sequence[RayNode]) -> int:
    """The cores of all machines; 0 where one does not tell."""
    each = [node.cpus for node in demand.hosts(nodes)]
    return sum(count for count in each if isinstance(count, int)) if all(isinstance(n, int) for n in each) else 0


def _cores(plan: Plan, group: Group) -> Iterator[Finding]:
    cores = cores_of(plan.machine.ray_nodes)
    if not cores or group.count <= cores or group.each.get("GPU", 0) > 0:
        return
    placed = min(
        group.count, *demand.groups_that_fit([group], [node.resources_total for node in plan.machine.ray_nodes])
    )
    if placed <= cores:  # the rest would wait: that is said where they are placed
        return
    machines = len(demand.hosts(plan.machine.ray_nodes))
    compared = f"{group.words} > {cores} CPU"
    yield finding(
        "ray_too_many_for_cores",
        "warning",
        text("More workers than cores") + f": {compared}",
        arithmetic=[
            f"{compared} ({machines} machine{'s' * (machines > 1)})",
            text(
                "{cores} / {count} = {cores2:.2g} of a core each",
                cores=cores,
                count=group.count,
                cores2=cores / group.count,
            ),
            _booked(group),
        ],
        at=group.at,
        cause=text(
            "Ray starts them all the same: CPUs are numbers in its books. Workers that compute take turns, "
            "each as much slower. And a node starts no more processes at once than it has cores, so that the "
            "last ones come late."
        ),
        steps=[
            text(
                "Set {name} to {cores}, and give each more to do: the same work, done no later. More only pays "
                "where workers wait (for a network, a GPU, a game server) instead of computing.",
                name=group.name,
                cores=cores,
            ),
            text("Declare num_cpus=1 on the actor, so that Ray holds back what the cores cannot bear."),
        ],
        reference=THREADS,
        confidence="medium",
    )


def _booked(group: Group) -> str:
    if group.each.get("CPU", 0) > 0:
        return text("each books {each:g} CPU", each=group.each["CPU"])
    return text("an actor that says nothing books 1 CPU to start and 0 to run")


def _memory(plan: Plan, group: Group) -> Iterator[Finding]:
    trial = plan.ray_trial
    measured = trial is not None and trial.own_bytes > 0
    one = trial.own_bytes if trial is not None and measured else WORKER_BYTES
    fits = that_fit_into_memory(plan, one)
    if fits is None or group.count <= fits:
        return
    compared = f"{group.words} x {gib(one)} = {gib(group.count * one)} > {gib(fits * one)}"
    lines = [
        f"{node.ip or node.name}: {KILLED_ABOVE:.0%} x {gib(_int(node.memory_total_bytes))} - {gib(_int(node.memory_used_bytes))}"
        for node in demand.hosts(plan.machine.ray_nodes)
    ]
    how = text("measured with one") if measured else text("a worker without torch; measure yours: --time-worker")
    yield finding(
        "ray_too_many_for_memory",
        "critical" if measured else "warning",
        text("The workers will not fit into the machines' memory") + f": {compared}",
        arithmetic=[compared, how, *lines[:8]],
        at=group.at,
        cause=text(
            "From {KILLED_ABOVE:.0%} of a machine's memory on Ray kills workers, and starts them again. "
            "memory= only books.",
            KILLED_ABOVE=KILLED_ABOVE,
        ),
        steps=[text("Set {name} to {fits} at most.", name=group.name, fits=fits)],
        reference=MEMORY,
        confidence="high" if measured else "medium",
    )


def that_fit_into_memory(plan: Plan, one: int) -> int | None:
    """How many workers of `one` bytes find room before Ray begins to kill; None where a machine does not tell its memory."""
    total = 0
    for node in demand.hosts(plan.machine.ray_nodes):
        if not isinstance(node.memory_total_bytes, int) or not isinstance(node.memory_used_bytes, int):
            return None
        total += max(0, int(KILLED_ABOVE * node.memory_total_bytes) - node.memory_used_bytes) // max(1, one)
    return total


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0
