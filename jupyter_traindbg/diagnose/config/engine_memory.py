"""The engine's share of the GPU: weights, and what is left for the KV cache of one request of the greatest length (vLLM, SGLang)."""

from __future__ import annotations

from collections.abc import Iterator

from ...language import text
from ...model import Finding, Given, MemoryEstimate, NotAvailable, Plan
from .estimate import estimate, kv_bytes_per_token, offloads_between_phases, parameters, tokens
from .reading import MARGIN, device_bytes, finding, gib, on, product, shares_gpus

__all__ = ["rule"]

VLLM = "https://docs.vllm.ai/en/stable/configuration/conserving_memory/"


def rule(plan: Plan) -> list[Finding]:
    share, device = plan.engine_memory_share, device_bytes(plan)
    if share is None:
        return []
    if not 0 < share.value <= 1:
        return [_no_share(share)]
    if device is None:
        return []
    budget = share.value * device
    return [*_cache(plan, share, device, budget), *_beside_training(plan, share, device, budget)]


def _no_share(share: Given[float]) -> Finding:
    return finding(
        "vllm_init_fail",
        "critical",
        text("The engine's share of the GPU is no share") + f": {share.name} {share.value:g}",
        arithmetic=[f"0 < {share.name} <= 1, {share.value:g}"],
        at=[share],
        cause=text("It is a fraction of the whole device: vLLM refuses to start."),
        steps=[text("Set {name} to 0.5 beside a training, 0.9 alone.", name=share.name)],
        reference=VLLM,
    )


def _weights(plan: Plan) -> int | None:
    total = parameters(plan.model)
    if total is None:
        return None
    wide = plan.engine_dtype is not None and plan.engine_dtype.value.lower() in ("float32", "fp32", "float")
    return total * (4 if wide else 2) // product(plan.engine_tensor_parallel, plan.engine_pipeline_parallel)


def _cache(plan: Plan, share: Given[float], device: int, budget: float) -> Iterator[Finding]:
    weights = _weights(plan)
    if weights is None:
        return
    left = budget - weights
    parts = product(plan.engine_tensor_parallel, plan.engine_pipeline_parallel)
    rest = gib(left) if left >= 0 else f"-{gib(-left)}"
    words = text("weights")
    sums = (
        f"{share.name} {share.value:g} x {gib(device)} = {gib(budget)}; {gib(budget)} - {words} {gib(weights)} = {rest}"
    )
    if left <= 0:
        least = weights / device
        yield _too_small(
            text("The engine's weights do not fit into its share") + f": {gib(weights)} > {gib(budget)}",
            sums,
            plan,
            share,
            [
                text("Raise {name} above {least:.2f}", name=share.name, least=least) + text(" and some for the cache.")
                if least < 0.85
                else text(
                    "No share of this GPU is enough: {weights} of {device}.", weights=gib(weights), device=gib(device)
                ),
                text(
                    "Or divide the weights: tensor parallel {parts} takes {weights} on each GPU.",
                    parts=parts * 2,
                    weights=gib(weights / 2),
                ),
            ],
        )
        return
    each, length = kv_bytes_per_token(plan), _longest(plan)
    if each is None or length is None:
        return
    needed = each * length.value
    if needed > left:
        most = int(left // each)
        yield _too_small(
            text("The KV cache cannot hold one request of the greatest length") + f": {gib(needed)} > {gib(left)}",
            f"{sums}; {length.name} {length.value} x {each / 1024:.4g} KiB = {gib(needed)}",
            plan,
            share,
            [
                text("Lower {name} to {most} at most.", name=length.name, most=most // 16 * 16),
                text(
                    "Or raise {name} to {value:.2f}.",
                    name=share.name,
                    value=min(0.95, (weights + needed) / device + 0.03),
                )
                if (weights + needed) / device < 0.9
                else text("Or raise the tensor parallel size, or an fp8 cache."),
            ],
            length=length,
        )


def _longest(plan: Plan) -> Given[int] | None:
    """What the engine is asked for; else what the model was made for, which is what vLLM takes alone."""
    if plan.engine_length is not None and plan.engine_length.value > 0:
        return plan.engine_length
    return tokens(plan) or (plan.model.longest if tuple(plan.dialects) == ("vllm",) else None)


def _too_small(
    title: str, sums: str, plan: Plan, share: Given[float], steps: list[str], *, length: Given[int] | None = None
) -> Finding:
    return finding(
        "kv_cache_oom",
        "critical",
        title,
        arithmetic=[sums],
        at=[share, length, plan.engine_tensor_parallel],
        cause=text(
            "vLLM measures this at its start and gives up: no memory for the cache blocks. Its activations come on top."
        ),
        steps=steps,
        reference=VLLM,
        confidence="high" if plan.model.hidden_size is not None else "medium",
    )


def _beside_training(plan: Plan, share: Given[float], device: int, budget: float) -> Iterator[Finding]:
    """While an engine that sleeps during training is awake, the training's states are on the GPU as well, unless they go to the CPU. (One
    that never sleeps is counted by `training_memory`.)
    """
    found = estimate(plan)
    if (
        not (shares_gpus(plan) and on(plan.engine_sleeps))
        or isinstance(found, NotAvailable)
        or found.states_bytes > device
    ):
        return
    staying = _staying(plan, found)
    if staying + budget <= MARGIN * device:
        return
    compared = (
        f"{gib(staying)} + {share.name} {share.value:g} x {gib(device)} = {gib(staying + budget)} > {gib(device)}"
    )
    room = max(0.0, 1 - staying / device - 0.03)
    yield finding(
        "vllm_init_fail",
        "warning",
        text("The engine's share is not free while the model is on the GPU") + f": {compared}",
        arithmetic=[
            text("states that stay: {staying}", staying=gib(staying)),
            compared,
            *found.assumptions,
        ],
        at=[share, plan.offload_optimizer, plan.offload_parameters],
        cause=text(
            "The engine wakes up, or starts, beside weights and optimizer states: out of memory there, or at "
            "its check of free memory."
        ),
        steps=[
            text("Lower {name} to {room:.2f}.", name=share.name, room=room),
            text("Or send the states to the CPU meanwhile: optimizer_offload, param_offload, adam_offload."),
        ],
        reference=VLLM,
        confidence="medium",
    )


def _staying(plan: Plan, found: MemoryEstimate) -> int:
    """Gradients are freed between the phases. What is offloaded for good is not in the estimate any more."""
    if not offloads_between_phases(plan):
        return found.weights_bytes + found.optimizer_bytes
    weights = 0 if on(plan.offload_parameters) else found.weights_bytes
    return weights + (0 if on(plan.offload_optimizer) else found.optimizer_bytes)
