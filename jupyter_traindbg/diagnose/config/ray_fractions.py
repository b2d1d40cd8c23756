"""Parts of GPUs that Ray's workers ask for: quantities that Ray refuses, and workers that share a device, whose memory nobody divides."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...language import text
from ...model import Finding, Given, NotAvailable, Plan
from . import ray_demand as demand
from .estimate import parameters
from .reading import device_bytes, finding, gib, on, positive

__all__ = ["rule"]

FRACTIONS = "https://docs.ray.io/en/latest/ray-core/scheduling/accelerators.html#fractional-accelerators"
TRAIN = "https://docs.ray.io/en/latest/train/user-guides/using-gpus.html"
CONTEXT_BYTES = 500 * 2**20
"""What a process takes of a GPU before its first tensor, roughly: context, kernels, libraries."""
INFERENCE_BYTES = 4
"""A parameter as `load_state_dict` leaves it, in fp32."""


def rule(plan: Plan) -> list[Finding]:
    gpus = plan.ray_gpus
    found = list(_all_on_one(plan))
    if gpus is not None and gpus.value > 0:
        found += [*_refused(gpus), *_train(plan, gpus)]
        if gpus.value < 1:
            found += [*_wasted(gpus), *_memory(plan, gpus)]
    return found


def _refused(gpus: Given[float]) -> Iterator[Finding]:
    whole = gpus.value > 1 and gpus.value != int(gpus.value)
    fine = not math.isclose(gpus.value / demand.SMALLEST, round(gpus.value / demand.SMALLEST), abs_tol=1e-6)
    if not whole and not fine:
        return
    words = text("above 1 only whole GPUs") if whole else text("finer than 0.0001")
    yield finding(
        "cli_argument_error",
        "critical",
        text("Ray refuses {gpus}: {words}", gpus=gpus, words=words),
        arithmetic=[str(gpus)],
        at=[gpus],
        cause=text("Making the actor raises ValueError: a worker has whole devices, or a part of one."),
        steps=[
            text("Set {name} to {ceil:g}.", name=gpus.name, ceil=math.ceil(gpus.value) if whole else demand.SMALLEST)
        ],
        reference=FRACTIONS,
    )


def _train(plan: Plan, gpus: Given[float]) -> Iterator[Finding]:
    """Ray Train refuses GPUs in the resources of workers that use none."""
    if plan.ray_use_gpu is None or plan.ray_use_gpu.value:
        return
    yield finding(
        "cli_argument_error",
        "critical",
        text("use_gpu is off, and the workers ask for GPUs") + f": {gpus}",
        arithmetic=[f"{plan.ray_use_gpu}, {gpus}"],
        at=[plan.ray_use_gpu, gpus],
        cause=text("ScalingConfig raises ValueError for that."),
        steps=[text("Set {name} to true, or take the GPU out.", name=plan.ray_use_gpu.name)],
        reference=TRAIN,
    )


def _wasted(gpus: Given[float]) -> Iterator[Finding]:
    """0.6 of a GPU leaves 0.4 that no other such worker can use."""
    fitting = int(1 / gpus.value + demand.SMALLEST)
    left = 1 - fitting * gpus.value
    if left < max(0.1, demand.SMALLEST):
        return
    more, same = (f"{demand.part_of_one(n):.4g}" for n in (fitting + 1, fitting))
    compared = f"1 // {gpus.name} {gpus.value:g} = {fitting}; 1 - {fitting} x {gpus.value:g} = {left:g}"
    yield finding(
        "ray_gpu_fraction",
        "info",
        text("{left:.0%} of every GPU stay unused by these workers", left=left) + f": {compared}",
        arithmetic=[compared],
        at=[gpus],
        cause=text("A worker's part is of one device; rests of two do not add up."),
        steps=[
            text(
                "{more} lets {fitting} share a GPU, {same} says what {fitting2} have.",
                more=more,
                fitting=fitting + 1,
                same=same,
                fitting2=fitting,
            )
        ],
        reference=FRACTIONS,
    )


def _memory(plan: Plan, gpus: Given[float]) -> Iterator[Finding]:
    """Ray books the part, it does not enforce it: all that share a device have the whole of its memory to fight for."""
    device, fitting = device_bytes(plan), int(1 / gpus.value + demand.SMALLEST)
    count = parameters(plan.model)
    measured = plan.ray_trial.gpu_bytes if plan.ray_trial is not None else None
    if device is None or not positive(plan.ray_workers) or plan.ray_workers is None:
        return
    if isinstance(measured, int) and measured > 0:
        one, how = measured + CONTEXT_BYTES, text("measured")
    elif count is not None:
        one, how = (
            count * INFERENCE_BYTES + CONTEXT_BYTES,
            text("weights in fp32 and a CUDA context"),
        )
    else:
        return
    sharing = min(fitting, plan.ray_workers.value)
    if sharing * one <= device:
        return
    compared = f"{sharing} x {gib(one)} = {gib(sharing * one)} > {gib(device)}"
    most = device // one
    yield finding(
        "cuda_oom",
        "warning",
        text("The workers that share a GPU will not fit into its memory") + f": {compared}",
        arithmetic=[compared, f"1 // {gpus.name} {gpus.value:g} = {fitting}", how],
        at=[gpus, plan.ray_workers],
        cause=text(
            "{name} {value:g} is a number in Ray's books: it gives no part of the memory, and limits none.",
            name=gpus.name,
            value=gpus.value,
        ),
        steps=[
            text("Set {name} to {part_of_one:.4g} or more.", name=gpus.name, part_of_one=demand.part_of_one(most))
            if most
            else text("One alone does not fit: a smaller model, or another GPU.")
        ],
        reference=FRACTIONS,
        confidence="medium",
    )


def _all_on_one(plan: Plan) -> Iterator[Finding]:
    """Workers that use CUDA and ask Ray for no GPU: each takes device 0 of its node."""
    device, workers, gpus = plan.ray_device, plan.ray_workers, plan.machine.gpus
    asks = positive(plan.ray_gpus) or on(plan.ray_use_gpu)
    if device is None or not device.value.lower().startswith("cuda") or asks or workers is None or workers.value < 2:
        return
    if isinstance(gpus, NotAvailable) or (plan.machine.ray_nodes and not gpus):
        return
    number = device.value.partition(":")[2] or "0"
    yield finding(
        "ray_same_gpu",
        "warning",
        text("All {value} workers will load onto GPU {number} of their node", value=workers.value, number=number)
        + f": {device}",
        arithmetic=[f"{workers}, {device}, num_gpus 0"],
        at=[device, workers],
        cause=text(
            "Ray gives devices to actors that ask for them (num_gpus). One that does not sees all GPUs of "
            "the node (or, with older Ray, none), and {value} is the same one for all.",
            value=device.value,
        ),
        steps=[
            text(
                "Give the actor num_gpus, a part such as 0.25 where several may share one; or use the CPU where "
                "inference is fast enough."
            )
        ],
        reference=FRACTIONS,
        confidence="medium",
    )
