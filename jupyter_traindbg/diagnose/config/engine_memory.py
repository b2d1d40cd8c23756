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
        text("The engine's share of the GPU is no share", "推理引擎的显存占比不合法")
        + f": {share.name} {share.value:g}",
        arithmetic=[f"0 < {share.name} <= 1, {share.value:g}"],
        at=[share],
        cause=text(
            "It is a fraction of the whole device: vLLM refuses to start.", "它是整卡显存的比例：vLLM 会拒绝启动。"
        ),
        steps=[text(f"Set {share.name} to 0.5 beside a training, 0.9 alone.", "与训练同卡时设 0.5，独占时设 0.9。")],
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
    words = text("weights", "权重")
    sums = (
        f"{share.name} {share.value:g} x {gib(device)} = {gib(budget)}; {gib(budget)} - {words} {gib(weights)} = {rest}"
    )
    if left <= 0:
        least = weights / device
        yield _too_small(
            text("The engine's weights do not fit into its share", "引擎权重放不进其显存份额")
            + f": {gib(weights)} > {gib(budget)}",
            sums,
            plan,
            share,
            [
                text(f"Raise {share.name} above {least:.2f}", f"把 {share.name} 提高到 {least:.2f} 以上")
                + text(" and some for the cache.", "，并为缓存留余量。")
                if least < 0.85
                else text(
                    f"No share of this GPU is enough: {gib(weights)} of {gib(device)}.",
                    f"此 GPU 的任何份额都不够：{gib(device)} 中需 {gib(weights)}。",
                ),
                text(
                    f"Or divide the weights: tensor parallel {parts * 2} takes {gib(weights / 2)} on each GPU.",
                    f"或切分权重：张量并行 {parts * 2} 时每卡 {gib(weights / 2)}。",
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
            text("The KV cache cannot hold one request of the greatest length", "KV 缓存容不下一个最长请求")
            + f": {gib(needed)} > {gib(left)}",
            f"{sums}; {length.name} {length.value} x {each / 1024:.4g} KiB = {gib(needed)}",
            plan,
            share,
            [
                text(
                    f"Lower {length.name} to {most // 16 * 16} at most.", f"{length.name} 最多设为 {most // 16 * 16}。"
                ),
                text(
                    f"Or raise {share.name} to {min(0.95, (weights + needed) / device + 0.03):.2f}.",
                    f"或把 {share.name} 提高到 {min(0.95, (weights + needed) / device + 0.03):.2f}。",
                )
                if (weights + needed) / device < 0.9
                else text("Or raise the tensor parallel size, or an fp8 cache.", "或增大张量并行，或用 fp8 缓存。"),
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
            "vLLM measures this at its start and gives up: no memory for the cache blocks. Its activations come on top.",
            "vLLM 启动时会检查并退出：没有内存给缓存块。其激活还未计入。",
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
        text("The engine's share is not free while the model is on the GPU", "模型在卡上时，引擎的份额并不空闲")
        + f": {compared}",
        arithmetic=[
            text(f"states that stay: {gib(staying)}", f"常驻状态：{gib(staying)}"),
            compared,
            *found.assumptions,
        ],
        at=[share, plan.offload_optimizer, plan.offload_parameters],
        cause=text(
            "The engine wakes up, or starts, beside weights and optimizer states: out of memory there, or at its check of free memory.",
            "引擎在权重与优化器状态旁启动或唤醒：会显存不足，或在检查空闲显存时失败。",
        ),
        steps=[
            text(f"Lower {share.name} to {room:.2f}.", f"把 {share.name} 降到 {room:.2f}。"),
            text(
                "Or send the states to the CPU meanwhile: optimizer_offload, param_offload, adam_offload.",
                "或在此期间把状态移到 CPU：optimizer_offload、param_offload、adam_offload。",
            ),
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
