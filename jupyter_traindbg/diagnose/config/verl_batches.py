"""verl's batch sizes, by its own `validate_config`, `ActorConfig.validate` and the normalisation in `fsdp_workers`."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...language import text
from ...model import Finding, Given, Plan
from .reading import divisors, finding, multiple_of, on, positive, product, world_size

__all__ = ["rule"]

SOURCE = "https://github.com/volcengine/verl/blob/main/verl/utils/config.py"
WORKERS = "https://github.com/volcengine/verl/blob/main/verl/workers/fsdp_workers.py"


def rule(plan: Plan) -> list[Finding]:
    if "verl" not in plan.dialects or on(plan.dynamic_batch):
        return []
    sizes = (plan.prompts_per_rollout, plan.samples_per_prompt, plan.mini_batch_prompts, plan.micro_batch_size)
    if any(size is not None and size.value <= 0 for size in sizes):
        return []
    return [*_prompts(plan), *_mini(plan), *_micro(plan)]


def _prompts(plan: Plan) -> Iterator[Finding]:
    prompts, samples, mini, world = (
        plan.prompts_per_rollout,
        plan.samples_per_prompt,
        plan.mini_batch_prompts,
        world_size(plan),
    )
    if prompts is not None and mini is not None and prompts.value < mini.value:
        yield _error(
            f"{prompts.name} {prompts.value} < {mini.name} {mini.value}",
            [prompts, mini],
            text("Both count prompts: an update cannot have more than a rollout."),
            text("Set {name} to {value} at most.", name=mini.name, value=prompts.value),
        )
    if prompts is None or samples is None or world is None or plan.tensor_parallel or plan.pipeline_parallel:
        return
    real = prompts.value * samples.value
    if real % world.value:
        step = world.value // math.gcd(world.value, samples.value)
        count = -(-prompts.value // step) * step
        yield _error(
            f"{prompts.name} {prompts.value} x rollout.n {samples.value} = {real}; {real} % {world.value} GPUs = {real % world.value}",
            [prompts, samples, world],
            text("The samples of a rollout are divided among all GPUs."),
            text("Set {name} to {count}.", name=prompts.name, count=count),
        )


def _mini(plan: Plan) -> Iterator[Finding]:
    mini, micro, world = plan.mini_batch_prompts, plan.micro_batch_size, world_size(plan)
    if mini is None or world is None or plan.tensor_parallel is not None or plan.pipeline_parallel is not None:
        return
    samples, parts = plan.samples_per_prompt, product(plan.context_parallel)
    groups = max(1, world.value // parts)
    n = samples.value if samples is not None else 1
    each = mini.value * n // groups
    shared = f"{mini.name} {mini.value} x rollout.n {n} // {groups} = {each}"
    if each == 0:
        yield _error(
            shared,
            [mini, samples, world],
            text("Each GPU would get no sequence at all in an update."),
            text("Set {name} to {value} at least.", name=mini.name, value=-(-groups // n)),
            source=WORKERS,
        )
    elif positive(micro) and micro is not None and each % micro.value:
        nearest = max(d for d in divisors(each) if d <= micro.value)
        fitting = _fitting(mini.value, n, groups, micro.value)
        yield _error(
            f"{shared}; {each} % {micro.name} {micro.value} = {each % micro.value}",
            [micro, mini, samples, world],
            text("A GPU's share of the mini batch is cut into micro batches."),
            text(
                "Set {name} to {fitting}: {fitting} x {n} / {groups} = {fitting2}, a multiple of {value}.",
                name=mini.name,
                fitting=fitting,
                n=n,
                groups=groups,
                fitting2=fitting * n // groups,
                value=micro.value,
            ),
            text("Or {name} to {nearest}, a divisor of {each}.", name=micro.name, nearest=nearest, each=each),
            source=WORKERS,
        )


def _fitting(mini: int, samples: int, groups: int, micro: int) -> int:
    """The mini batch nearest to `mini` whose samples come out even on every GPU."""
    step = groups * micro
    step //= math.gcd(step, samples)
    return max(step, round(mini / step) * step)


def _micro(plan: Plan) -> Iterator[Finding]:
    everywhere, each, mini, world = (
        plan.micro_batch_everywhere,
        plan.micro_batch_size,
        plan.mini_batch_prompts,
        world_size(plan),
    )
    if everywhere is not None and each is not None:
        yield _error(
            f"{everywhere.name} {everywhere.value}, {each.name} {each.value}",
            [everywhere, each],
            text("verl refuses both: the former is deprecated."),
            text("Remove {key}.", key=everywhere.key),
        )
    elif everywhere is not None and mini is not None and everywhere.value > 0 and mini.value % everywhere.value:
        yield _error(
            f"{mini.name} {mini.value} % {everywhere.name} {everywhere.value} = {mini.value % everywhere.value}",
            [everywhere, mini],
            text("The mini batch is cut into micro batches."),
            text("Set {name} to {multiple_of}.", name=mini.name, multiple_of=multiple_of(mini.value, everywhere.value)),
        )
    elif (
        everywhere is not None and world is not None and everywhere.value * product(plan.context_parallel) < world.value
    ):
        yield _error(
            f"{everywhere.name} {everywhere.value} x {product(plan.context_parallel)} < {world.value} GPUs",
            [everywhere, world],
            text("Every GPU needs one sequence at least."),
            text("Use ppo_micro_batch_size_per_gpu instead."),
        )


def _error(compared: str, at: list[Given[int] | None], cause: str, *steps: str, source: str = SOURCE) -> Finding:
    return finding(
        "batch_size_config_error",
        "critical",
        text("verl's batch sizes do not fit together") + f": {compared}",
        arithmetic=[compared],
        at=at,
        cause=cause,
        steps=list(steps),
        reference=source,
    )
