"""Does the training fit into the GPU (and what is offloaded, into the machine)? See `estimate` for the arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...language import text
from ...model import Finding, Given, MemoryEstimate, NotAvailable, Plan
from .estimate import estimate, offloads_between_phases
from .reading import (
    MARGIN,
    adapters_only,
    device_bytes,
    finding,
    gib,
    half_precision,
    on,
    recomputes,
    says_how,
    shares_gpus,
    stage,
    world_size,
)

__all__ = ["rule"]

ZERO = "https://arxiv.org/abs/1910.02054"
ACTIVATIONS = "https://arxiv.org/abs/2205.05198"
CUDA_BYTES = 2**30
"""What CUDA's context and NCCL's buffers take besides, roughly."""


def rule(plan: Plan) -> list[Finding]:
    found = estimate(plan)
    if isinstance(found, NotAvailable) or not _trains(plan):
        return []
    return [*_device(plan, found), *_host(plan, found)]


def _trains(plan: Plan) -> bool:
    """Not an engine alone, and not one of Megatron's servers, which take the same options."""
    if tuple(plan.dialects) == ("vllm",):
        return False
    return "megatron" not in plan.dialects or plan.steps is not None or plan.max_samples is not None


def _device(plan: Plan, found: MemoryEstimate) -> Iterator[Finding]:
    device = device_bytes(plan)
    if device is None:
        return
    room = device - CUDA_BYTES
    engine = _engine_bytes(plan, device)
    activations = found.activations_bytes if isinstance(found.activations_bytes, int) else 0
    needed = found.states_bytes + activations + engine
    least = found.states_bytes if found.least_states_bytes is None else found.least_states_bytes
    states = found.states_bytes > room
    surely = least > room
    if not states and needed <= MARGIN * room:
        return
    if surely:
        title = text("The model's states alone do not fit")
    elif states:
        title = text("The model's states do not fit if it is loaded in fp32")
    elif found.states_bytes + activations > room:
        title = text("The activations will not fit beside the states")
    else:
        title = text("Training and the engine will not fit side by side")
    compared = f"{gib(needed)} > {gib(device)}"
    yield finding(
        "cuda_oom",
        "critical" if surely else "warning",
        f"{title}: {compared}",
        arithmetic=[_sum(found, activations, engine, needed, device), *found.assumptions],
        at=[*_keys(plan), plan.engine_memory_share if engine else None],
        cause=text(
            "CUDA out of memory at the first step, by an estimate: CUDA's own memory (about 1 GiB) and "
            "fragments come on top."
        ),
        steps=list(_steps(plan, found, activations, engine, room)),
        reference=ZERO if states else ACTIVATIONS,
        confidence="high" if surely and plan.model.parameters is None else "medium",
    )


def _sum(found: MemoryEstimate, activations: int, engine: int, needed: int, device: int) -> str:
    parts = [
        (text("weights"), found.weights_bytes),
        (text("gradients"), found.gradients_bytes),
        (text("optimizer"), found.optimizer_bytes),
        (text("activations"), activations),
        (text("engine"), engine),
    ]
    words = " + ".join(f"{name} {gib(size)}" for name, size in parts if size)
    return f"{found.parameters / 1e9:.3g} B: {words} = {gib(needed)} > {gib(device)}"


def _engine_bytes(plan: Plan, device: int) -> int:
    """What an engine on the same GPU keeps while the model is trained."""
    if not shares_gpus(plan) or on(plan.engine_sleeps) or plan.engine_memory_share is None:
        return 0
    return int(plan.engine_memory_share.value * device)


def _keys(plan: Plan) -> list[Given[Any] | None]:
    keys: list[Given[Any] | None] = [
        plan.zero_stage,
        plan.sharding,
        plan.micro_batch_size,
        plan.sequence_length,
        plan.model.parameters,
        plan.recompute,
        plan.optimizer,
    ]
    return keys


def _steps(plan: Plan, found: MemoryEstimate, activations: int, engine: int, room: int) -> Iterator[str]:
    world = world_size(plan)
    ranks = world.value if world is not None else 1
    if found.least_states_bytes is not None and found.states_bytes > room > found.least_states_bytes:
        yield text(
            "Load it in 16 bits (torch_dtype: bfloat16): the states take {least_states_bytes}.",
            least_states_bytes=gib(found.least_states_bytes),
        )
    if engine:
        yield text(
            "Let the engine give its memory back during training: enable_engine_sleep, vllm_enable_sleep, "
            "free_cache_engine."
        )
    if stage(plan) < 3 and ranks > 1 and says_how(plan) and not adapters_only(plan):
        divided = f"16 x {found.parameters / 1e9:.3g} B / {ranks} = {gib(found.parameters * 16 // ranks)}"
        yield text(
            "Divide the states among {ranks} GPUs, with ZeRO stage 3 or FULL_SHARD: {divided} on each.",
            ranks=ranks,
            divided=divided,
        )
    if half_precision(plan) is None and not adapters_only(plan):
        yield text("Use bf16: activations take half.")
    if activations and found.states_bytes + activations + engine > room and not recomputes(plan):
        yield text(
            "Recompute activations (gradient_checkpointing): 2 s b h a layer instead of 34, for a third more time."
        )
    micro = plan.micro_batch_size
    if activations and micro is not None and micro.value > 1 and found.states_bytes < room:
        fits = max(1, int(micro.value * (room - found.states_bytes - engine) / activations))
        yield text(
            "Lower {name} from {value} to {fits}, and raise the accumulation as much.",
            name=micro.name,
            value=micro.value,
            fits=min(fits, micro.value - 1),
        )
    if found.optimizer_bytes > 0 and not offloads_between_phases(plan) and not adapters_only(plan):
        yield text(
            "Or offload the optimizer to the CPU: {optimizer_bytes} less on each GPU, and slower.",
            optimizer_bytes=gib(found.optimizer_bytes),
        )
    if ranks == 1:
        yield text("Or train adapters only (LoRA), or a smaller model.")


def _host(plan: Plan, found: MemoryEstimate) -> Iterator[Finding]:
    memory = plan.machine.memory_bytes
    if not found.host_bytes or not memory or found.host_bytes <= memory:
        return
    compared = f"{gib(found.host_bytes)} > {gib(memory)}"
    yield finding(
        "host_oom_killed",
        "critical",
        text("What is offloaded does not fit into this machine") + f": {compared}",
        arithmetic=[
            text(
                "offloaded by all processes here: {host_bytes}; memory of {name}: {memory}",
                host_bytes=gib(found.host_bytes),
                name=plan.machine.name,
                memory=gib(memory),
            ),
            *found.assumptions,
        ],
        at=[plan.offload_optimizer, plan.offload_parameters],
        cause=text("The kernel's OOM killer would end a rank."),
        steps=[
            text("Offload the optimizer only, not the weights.")
            if on(plan.offload_parameters)
            else text("Use more machines: each takes its share."),
            text("Or an 8-bit optimizer, or an NVMe disk in place of memory."),
        ],
        reference=ZERO,
        confidence="medium",
    )
