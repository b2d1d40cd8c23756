"""The batch of one optimizer step = micro batch x accumulation x data-parallel processes: DeepSpeed, OpenRLHF, LightRFT, Megatron."""

from __future__ import annotations

from ...language import text
from ...model import Finding, Given, Plan
from .reading import data_parallel, finding, multiple_of, on, world_size

__all__ = ["rule"]

DEEPSPEED = "https://www.deepspeed.ai/docs/config-json/#batch-size-related-parameters"
SOURCES = {
    "lightrft": "https://github.com/opendilab/LightRFT/blob/main/lightrft/strategy/strategy_base.py",
    "openrlhf": "https://github.com/OpenRLHF/OpenRLHF/blob/v0.9.9/openrlhf/utils/deepspeed/deepspeed.py",
    "megatron": "https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/core/num_microbatches_calculator.py",
}


def rule(plan: Plan) -> list[Finding]:
    total, micro = plan.train_batch_size, plan.micro_batch_size
    ranks = data_parallel(plan)
    if total is None or total.value <= 0 or ranks is None or on(plan.dynamic_batch):
        return []
    if "deepspeed" in plan.dialects and not {"lightrft", "openrlhf"} & set(plan.dialects):
        return _deepspeed(plan, total, ranks)
    if set(SOURCES) & set(plan.dialects) and micro is not None and micro.value > 0:
        step = micro.value * ranks
        if total.value % step:
            return [_uneven(plan, total, micro, ranks)]
    return []


def _deepspeed(plan: Plan, total: Given[int], ranks: int) -> list[Finding]:
    micro, accumulation = plan.micro_batch_size, plan.accumulation
    parts = [given.value for given in (micro, accumulation) if given is not None and given.value > 0]
    step = ranks
    for part in parts:
        step *= part
    if micro is not None and accumulation is not None and len(parts) == 2:
        if total.value == step:
            return []
        steps = [text("Set {name} to {step}.", name=total.name, step=step)]
        if total.value % (micro.value * ranks) == 0:
            wanted = total.value // (micro.value * ranks)
            steps.append(text("Or set {name} to {wanted}.", name=accumulation.name, wanted=wanted))
        if total.value % (micro.value * accumulation.value) == 0:
            wanted = total.value // (micro.value * accumulation.value)
            steps.append(text("Or start {wanted} processes.", wanted=wanted))
        product = f"{micro.name} {micro.value} x {accumulation.name} {accumulation.value} x {_ranks(plan, ranks)}"
        compared = f"{total.name} {total.value} != {product} = {step}"
    elif total.value % step == 0:
        return []
    else:
        known = " x ".join(f"{g.name} {g.value}" for g in (micro, accumulation) if g is not None and g.value > 0)
        compared = f"{total.name} {total.value} % ({known + ' x ' if known else ''}{_ranks(plan, ranks)} = {step}) = {total.value % step}"
        steps = [
            text(
                "Set {name} to a multiple of {step}: {multiple_of}.",
                name=total.name,
                step=step,
                multiple_of=multiple_of(total.value, step),
            )
        ]
    # of a JSON alone it is not said where it runs: with as many processes as GPUs here, or with others
    assumed = plan.processes is None and plan.processes_per_node is None and total.value % (step // ranks) == 0
    return [
        finding(
            "batch_size_config_error",
            "warning" if assumed else "critical",
            text("DeepSpeed's three batch sizes do not agree") + f": {compared}",
            arithmetic=[compared],
            at=[total, micro, accumulation, world_size(plan)],
            cause=text(
                "deepspeed.initialize asserts train_batch_size == micro batch x accumulation x data-parallel processes."
            ),
            steps=[*steps, _or_leave_out(total)],
            reference=DEEPSPEED,
            confidence="medium" if assumed else "high",
        )
    ]


def _or_leave_out(total: Given[int]) -> str:
    return text("Or leave {name} out: with the other two, DeepSpeed computes it.", name=total.name)


def _ranks(plan: Plan, ranks: int) -> str:
    world = world_size(plan)
    if world is not None and world.value == ranks:
        return text("{ranks} processes", ranks=ranks)
    return text("{ranks} data-parallel processes", ranks=ranks)


def _uneven(plan: Plan, total: Given[int], micro: Given[int], ranks: int) -> Finding:
    step = micro.value * ranks
    compared = f"{total.name} {total.value} % ({micro.name} {micro.value} x {_ranks(plan, ranks)} = {step}) = {total.value % step}"
    source = next(link for name, link in SOURCES.items() if name in plan.dialects)
    return finding(
        "batch_size_config_error",
        "critical",
        text("The training batch does not divide among the GPUs") + f": {compared}",
        arithmetic=[compared],
        at=[total, micro, world_size(plan)],
        cause=text(
            "Every GPU has to get a whole number of micro batches in each optimizer step; the framework "
            "refuses to start otherwise."
        ),
        steps=[
            text(
                "Set {name} to {multiple_of}, or lower {name2}.",
                name=total.name,
                multiple_of=multiple_of(total.value, step),
                name2=micro.name,
            )
        ],
        reference=source,
    )
