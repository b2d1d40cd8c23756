"""Weights that a driver hands to its Ray workers, against the object stores that they travel through."""

from __future__ import annotations

from ...language import text
from ...model import Finding, Plan
from . import ray_demand as demand
from .estimate import parameters
from .reading import finding, gib, positive

__all__ = ["rule"]

STORE = "https://docs.ray.io/en/latest/ray-core/objects/object-spilling.html"
PUT = "https://docs.ray.io/en/latest/ray-core/patterns/pass-large-arg-by-value.html"
FP32_BYTES = 4


def rule(plan: Plan) -> list[Finding]:
    nodes, count = plan.machine.ray_nodes, parameters(plan.model)
    workers = plan.ray_workers
    if not nodes or count is None or workers is None or not positive(workers):
        return []
    stores = [node.resources_total.get("object_store_memory", 0.0) for node in nodes]
    heads = [store for node, store in zip(nodes, stores, strict=True) if node.head]
    smallest, owners = min(stores), min(heads or stores)
    if not smallest:
        return []
    one = count * FP32_BYTES
    if one <= smallest and one * workers.value <= owners:
        return []
    too_small = one > smallest
    compared = (
        f"{gib(one)} > {gib(smallest)}"
        if too_small
        else f"{workers} x {gib(one)} = {gib(one * workers.value)} > {gib(owners)}"
    )
    title = (
        text("One set of weights does not fit into a node's object store")
        if too_small
        else text("A set of weights for every worker does not fit into the object store")
    )
    step = text("Start Ray with a larger store: --object-store-memory={one}, and a /dev/shm of that size.", one=2 * one)
    return [
        finding(
            "ray_object_store_full",
            "warning",
            f"{title}: {compared}",
            arithmetic=[
                compared,
                f"{count:,} x {FP32_BYTES} = {gib(one)}",
                *demand.told(nodes, ["object_store_memory"]),
            ],
            at=[workers, plan.model.parameters],
            cause=text(
                "Every call worker.run.remote(state_dict) puts the weights into the store anew, once for each "
                "worker. What does not fit is written to disk, and the calls wait for it."
            ),
            steps=[
                text(
                    "Put them once, ref = ray.put(state_dict), and hand ref to all: one set for each node, shared by "
                    "its workers."
                ),
                step,
            ]
            if not too_small
            else [step],
            reference=STORE if too_small else PUT,
            confidence="medium",
        )
    ]
