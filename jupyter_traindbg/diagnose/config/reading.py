"""Figures that follow from a `Plan`, and how a finding about it is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ...language import text
from ...model import Finding, Given, NotAvailable, Plan, things

__all__ = [
    "MARGIN",
    "adapters_only",
    "data_parallel",
    "device_bytes",
    "divisors",
    "finding",
    "gib",
    "half_precision",
    "is_megatron",
    "model_parallel",
    "multiple_of",
    "on",
    "per_node",
    "positive",
    "product",
    "recomputes",
    "says_how",
    "shards",
    "shares_gpus",
    "stage",
    "stored_bytes",
    "world_size",
]

GIB = 2**30
MARGIN = 1.1
"""By so much an estimate that rests on formulas, not on counts, has to exceed the room before it is a finding."""
STAGES = {
    "full_shard": 3, "true": 3, "1": 3, "fsdp": 3, "fsdp2": 3, "hybrid_shard": 3, "4": 3,
    "shard_grad_op": 2, "2": 2, "hybrid_shard_zero2": 2, "5": 2, "no_shard": 0, "3": 0,
}  # fmt: skip
"""accelerate numbers FSDP's strategies from 1 (`FSDP_SHARDING_STRATEGY`)."""
HALF = ("bf16", "bfloat16", "fp16", "float16", "half", "true")
"""In words; ``pure_bf16: true`` is one of them."""


def on(given: Given[bool] | None) -> bool:
    return given is not None and given.value


def positive(given: Given[Any] | None) -> bool:
    """Whether it is given, and a number above zero: -1 and 0 stand for "not set" everywhere."""
    return given is not None and given.value > 0


def product(*parts: Given[int] | None) -> int:
    """Of those that are given."""
    total = 1
    for part in parts:
        total *= part.value if part is not None and part.value > 0 else 1
    return total


def per_node(plan: Plan) -> Given[int] | None:
    """Processes on each machine; where nothing says, one for each GPU that the machine is known to have."""
    if plan.processes_per_node is not None and plan.processes_per_node.value > 0:
        return plan.processes_per_node
    if plan.processes is not None and plan.processes.value > 0:
        nodes = product(plan.nodes)
        if plan.processes.value % nodes == 0:
            return Given(plan.processes.value // nodes, plan.processes.key, plan.processes.file, plan.processes.line)
        return None
    gpus = plan.machine.gpus
    if isinstance(gpus, NotAvailable) or not gpus:
        return None
    return Given(len(gpus), text("GPUs"), plan.machine.name)


def world_size(plan: Plan) -> Given[int] | None:
    """Processes on all machines together."""
    if plan.processes is not None and plan.processes.value > 0:
        return plan.processes
    each = per_node(plan)
    if each is None:
        return None
    if plan.nodes is None or plan.nodes.value <= 1:
        return each
    key = f"{plan.nodes.name} {plan.nodes.value} x {each.name} {each.value}"
    return Given(plan.nodes.value * each.value, key, each.file, each.line)


def model_parallel(plan: Plan) -> int:
    """GPUs that hold one copy of the model: tensor times pipeline parallelism."""
    return product(plan.tensor_parallel, plan.pipeline_parallel)


def data_parallel(plan: Plan) -> int | None:
    """Processes that see different sequences; None where that does not come out even, or the world size is not known."""
    world = world_size(plan)
    cut = model_parallel(plan) * product(plan.context_parallel)
    return world.value // cut if world is not None and world.value % cut == 0 and world.value >= cut else None


def stage(plan: Plan) -> int:
    """By ZeRO's numbers: 1 the optimizer is divided among data-parallel ranks, 2 gradients as well, 3 weights as well; 0 nothing is."""
    if plan.sharding is not None:
        words = plan.sharding.value.lower().split() or ["no_shard"]
        if is_megatron(plan):
            return 1 if words[0] in ("true", "megatron") else 0
        found = next((STAGES[word] for word in words if word in STAGES), None)
        if (
            words[0] == "false" and "reshard" in plan.sharding.key
        ):  # FSDP2: weights stay gathered between forward and backward
            return 2
        if found is not None:
            return found
    return plan.zero_stage.value if plan.zero_stage is not None else 0


def is_megatron(plan: Plan) -> bool:
    """Megatron-LM itself, or verl's workers on it, which divide the optimizer's states unless told not to."""
    return "megatron" in plan.dialects or (plan.sharding is not None and plan.sharding.value.lower() == "megatron")


def adapters_only(plan: Plan) -> bool:
    """Whether only a small part of the parameters is trained."""
    return positive(plan.lora_rank) or (plan.tuning is not None and plan.tuning.value.lower() not in ("full", ""))


def recomputes(plan: Plan) -> bool:
    """Whether activations are computed again for the backward pass: LLaMA-Factory does unless it is told not to."""
    if plan.recompute is not None:
        return plan.recompute.value
    return plan.tuning is not None and plan.tuning.name == "finetuning_type"


def says_how(plan: Plan) -> bool:
    """Whether it is said how the states are divided. A trainer's YAML leaves that to its launcher, and a launcher to its program: only
    together they say that nothing divides them.
    """
    spoken = set(plan.dialects)
    whole = bool({"accelerate", "deepspeed", "lightrft", "megatron", "openrlhf", "verl"} & spoken)
    return whole or {"launcher", "transformers"} <= spoken or plan.zero_stage is not None or plan.sharding is not None


def shares_gpus(plan: Plan) -> bool:
    """Whether engine and training are on the same GPUs."""
    return on(plan.colocated) and not on(plan.asynchronous)


def shards(plan: Plan) -> int:
    """Among how many GPUs ZeRO or FSDP divides; 1 where that is not known."""
    world = world_size(plan)
    if world is None:
        return 1
    if plan.sharding is not None and "hybrid" in plan.sharding.value.lower():
        each = per_node(plan)
        return max(1, each.value) if each is not None else 1
    return max(1, world.value // model_parallel(plan))


def half_precision(plan: Plan) -> Given[Any] | None:
    """What asks for 16-bit arithmetic; None where nothing does."""
    if on(plan.bf16) or on(plan.fp16):
        return plan.bf16 if on(plan.bf16) else plan.fp16
    return next((given for given in (plan.dtype, plan.loaded_in) if given is not None and _is_half(given.value)), None)


def stored_bytes(plan: Plan) -> int | None:
    """Bytes of one weight as autocast and FSDP keep it while it is trained; its gradient has as many, a state of the optimizer too. None
    where that hangs on how the program loads the model.
    """
    if plan.sharding is not None or (plan.tuning is not None and plan.tuning.name == "finetuning_type"):
        pure = plan.loaded_in is not None and plan.loaded_in.name == "pure_bf16" and _is_half(plan.loaded_in.value)
        return 2 if pure else 4  # both make fp32 of them
    if plan.loaded_in is not None:
        return 2 if _is_half(plan.loaded_in.value) else 4
    if half_precision(plan) is not None and plan.model_path is not None and plan.model_path.name == "base_model":
        return 2  # axolotl loads in what it computes in
    return None


def _is_half(dtype: str) -> bool:
    return dtype.lower().rpartition(".")[2] in HALF


def device_bytes(plan: Plan) -> int | None:
    """The memory of the smallest GPU; None where that is not known."""
    gpus = plan.machine.gpus
    if isinstance(gpus, NotAvailable):
        return None
    known = [gpu.memory_bytes for gpu in gpus if isinstance(gpu.memory_bytes, int) and gpu.memory_bytes > 0]
    return min(known) if known else None


def multiple_of(value: int, step: int) -> str:
    """The multiples of `step` next to `value`, in words: ``12 or 16``."""
    below, above = value // step * step, -(-value // step) * step
    words = [str(n) for n in dict.fromkeys((below, above)) if n > 0]
    return text(" or ").join(words)


def divisors(of: int, most: int = 4096) -> list[int]:
    """Those up to `most`, and never above 4096: sizes of groups of GPUs, and of batches."""
    return [n for n in range(1, min(of, most, 4096) + 1) if of % n == 0]


def gib(size: float) -> str:
    """Bytes as people compare them with a GPU: ``14.9 GiB``."""
    if size < GIB:
        return f"{size / 2**20:.3g} MiB"
    return f"{size / GIB:.1f} GiB" if size < 1000 * GIB else f"{size / 2**40:.1f} TiB"


def finding(
    code: str,
    severity: Literal["critical", "warning", "info"],
    title: str,
    *,
    arithmetic: Sequence[str],
    at: Sequence[Given[Any] | None],
    cause: str,
    steps: Sequence[str],
    reference: str | None = None,
    confidence: Literal["high", "medium", "low"] = "high",
) -> Finding:
    """A finding with its arithmetic and with the keys that it is about, first the one to change."""
    keys = [given for given in at if given is not None]
    lines = [f"{given.where}: {given.value}" for given in keys]
    who = things(dict.fromkeys(given.key for given in keys))
    where = next((given.where for given in keys if given.line is not None), keys[0].where if keys else None)
    evidence = [*arithmetic, *dict.fromkeys(lines)]
    return Finding(code, severity, title, who, where, evidence, cause, _from_the_first(steps), reference, confidence)


def _from_the_first(steps: Sequence[str]) -> list[str]:
    """Which step is the first hangs on the plan: "Or ..." is none."""
    alternative = text("Or ")
    if not steps or not steps[0].startswith(alternative):
        return list(steps)
    first = steps[0].removeprefix(alternative)
    return [first[:1].upper() + first[1:], *steps[1:]]
