"""How the GPUs are cut up: tensor x pipeline x context x data parallel sizes, heads and layers that have to come out even."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...language import text
from ...model import Finding, Given, Plan
from .reading import divisors, finding, product, world_size

__all__ = ["rule"]

MEGATRON = "https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/training/arguments.py"
VLLM = "https://docs.vllm.ai/en/stable/serving/parallelism_scaling/"
VERL = "https://github.com/volcengine/verl/blob/main/verl/workers/fsdp_workers.py"


def rule(plan: Plan) -> list[Finding]:
    return [*_training(plan), *_engine(plan), *_heads(plan), *_layers(plan)]


def _training(plan: Plan) -> Iterator[Finding]:
    world = world_size(plan)
    sizes = [
        g
        for g in (plan.tensor_parallel, plan.pipeline_parallel, plan.context_parallel)
        if g is not None and g.value > 1
    ]
    if world is None:
        return
    cut = product(*sizes)
    words = " x ".join(f"{g.name} {g.value}" for g in sizes)
    data = plan.data_parallel
    if sizes and world.value % cut:
        words = f"{words} = {cut}" if len(sizes) > 1 else words
        yield _uneven(
            f"{world.value} GPUs % ({words}) = {world.value % cut}",
            [*sizes, world],
            text("Every copy of the model needs that many GPUs."),
            text(
                "Choose sizes whose product divides {value}: {listed}.",
                value=world.value,
                listed=_listed(divisors(world.value)),
            ),
            MEGATRON,
        )
    elif data is not None and data.value > 0 and data.value * cut != world.value and (sizes or data.value != 1):
        parts = " x ".join([*([words] if words else []), f"{data.name} {data.value}"])
        yield _uneven(
            f"{parts} = {data.value * cut} != {world.value} GPUs",
            [data, *sizes, world],
            text("Tensor x pipeline x context x data parallel is the world size."),
            text("Set {name} to {value}.", name=data.name, value=max(1, world.value // cut)),
            MEGATRON,
        )


def _engine(plan: Plan) -> Iterator[Finding]:
    """Engines that live on the GPUs of the training: verl, LightRFT."""
    size, world = plan.engine_tensor_parallel, world_size(plan)
    if size is None or size.value <= 1 or world is None or not {"verl", "lightrft"} & set(plan.dialects):
        return
    whole = size.value * product(plan.engine_pipeline_parallel)
    if world.value % whole:
        yield _uneven(
            f"{world.value} GPUs % {size.name} {whole} = {world.value % whole}",
            [size, world],
            text("The engines divide the GPUs of the training among them."),
            text("Set {name} to one of {listed}.", name=size.name, listed=_listed(divisors(world.value))),
            VERL,
        )


def _heads(plan: Plan) -> Iterator[Finding]:
    heads, kv = plan.model.heads, plan.model.kv_heads
    if heads is None or heads.value <= 0 or (kv is not None and kv.value <= 0):
        return
    sizes = [("tp", plan.tensor_parallel), ("engine", plan.engine_tensor_parallel)]
    if "verl" in plan.dialects or "lightrft" in plan.dialects:
        sizes.append(("ulysses", plan.context_parallel))  # Ulysses hands out heads; ring attention cuts the sequence
    for kind, size in sizes:
        if size is None or size.value <= 1:
            continue
        odd = heads.value % size.value
        groups = kv is not None and kind != "ulysses" and kv.value % size.value and size.value % kv.value
        if odd or groups:
            counted = heads if odd or kv is None else kv
            most = max(size.value, product(world_size(plan)))
            fitting = [n for n in divisors(heads.value, most) if _fits(n, heads, kv)]
            yield _uneven(
                f"{counted.name} {counted.value} % {size.name} {size.value} = {counted.value % size.value}",
                [size, counted],
                text("Attention heads are divided among these GPUs, whole ones only."),
                text("Set {name} to one of {listed}.", name=size.name, listed=_listed(fitting)),
                VLLM,
            )


def _fits(size: int, heads: Given[int], kv: Given[int] | None) -> bool:
    return heads.value % size == 0 and (kv is None or kv.value % size == 0 or size % kv.value == 0)


def _layers(plan: Plan) -> Iterator[Finding]:
    layers, size = plan.model.layers, plan.pipeline_parallel
    if (
        "megatron" in plan.dialects
        and layers is not None
        and size is not None
        and size.value > 1
        and layers.value % size.value
    ):
        yield _uneven(
            f"{layers.name} {layers.value} % {size.name} {size.value} = {layers.value % size.value}",
            [size, layers],
            text("Every stage of the pipeline gets the same number of layers."),
            text("Set {name} to one of {listed}.", name=size.name, listed=_listed(divisors(layers.value))),
            MEGATRON,
        )


def _listed(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes[:12]))


def _uneven(compared: str, at: list[Given[int]], cause: str, step: str, source: str) -> Finding:
    return finding(
        "world_size_gpu_mismatch",
        "critical",
        text("The parallel sizes do not come out even") + f": {compared}",
        arithmetic=[compared],
        at=at,
        cause=cause,
        steps=[step],
        reference=source,
    )
