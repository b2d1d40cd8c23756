"""OpenRLHF's and LightRFT's rollouts: prompts x samples against the training batch, micro batches and GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from ...language import text
from ...model import Finding, Given, Plan
from .reading import data_parallel, finding, multiple_of, on, positive, world_size

__all__ = ["rule"]

LIGHTRFT = "https://github.com/opendilab/LightRFT/blob/main/lightrft/trainer/ppo_trainer.py"
OPENRLHF = "https://github.com/OpenRLHF/OpenRLHF/blob/v0.9.9/openrlhf/cli/train_ppo_ray.py"
GROUPS = ("rloo", "reinforce_baseline", "group_norm", "dr_grpo", "grpo", "cpgd")
"""Estimators that compare the samples of one prompt with each other."""


def rule(plan: Plan) -> list[Finding]:
    if not {"lightrft", "openrlhf"} & set(plan.dialects):
        return []
    found = list(_one_sample(plan))
    prompts, samples, total = plan.prompts_per_rollout, plan.samples_per_prompt, plan.train_batch_size
    if (
        prompts is not None
        and samples is not None
        and total is not None
        and min(prompts.value, samples.value, total.value) > 0
    ):
        found += _against_training(plan, prompts, samples, total)
    return [*found, *_against_gpus(plan)]


def _one_sample(plan: Plan) -> Iterator[Finding]:
    estimator, samples = plan.advantage_estimator, plan.samples_per_prompt
    if estimator is None or samples is None or samples.value != 1 or estimator.value.lower() not in GROUPS:
        return
    compared = f"{estimator.name} {estimator.value}, {samples.name} 1"
    yield finding(
        "batch_size_config_error",
        "critical",
        text("{value} needs several samples of a prompt", value=estimator.value) + f": {compared}",
        arithmetic=[compared, "advantage = reward - mean(reward) = 0"],
        at=[samples, estimator],
        cause=text(
            "A group of one is its own mean: every advantage is 0, and nothing is learnt; OpenRLHF and "
            "LightRFT refuse to start."
        ),
        steps=[text("Set {name} to 4 or 8.", name=samples.name)],
        reference=OPENRLHF,
    )


def _against_training(plan: Plan, prompts: Given[int], samples: Given[int], total: Given[int]) -> Iterator[Finding]:
    rolled = prompts.value * samples.value
    product = f"{prompts.name} {prompts.value} x {samples.name} {samples.value} = {rolled}"
    if rolled < total.value:
        yield _error(
            f"{product} < {total.name} {total.value}",
            [total, prompts, samples],
            text(
                "A rollout does not fill one training batch: the step of the optimizer waits for later rollouts, "
                "or is never made."
            ),
            [
                text("Set {name} to {rolled}", name=total.name, rolled=rolled)
                + text(", or {name} to {value}.", name=prompts.name, value=-(-total.value // samples.value))
            ],
            severity="info" if "lightrft" in plan.dialects else "warning",
        )
    elif rolled % total.value:
        yield _error(
            f"{product}; {rolled} % {total.name} {total.value} = {rolled % total.value}",
            [total, prompts, samples],
            text("The rest of every rollout makes no whole training batch."),
            [
                text(
                    "Set {name} so that the product is {multiple_of}.",
                    name=prompts.name,
                    multiple_of=multiple_of(rolled, total.value),
                )
            ],
            severity="warning",
        )
    elif rolled > total.value and "lightrft" in plan.dialects:
        yield _lightrft(plan, prompts, samples, total, product)
    if "lightrft" in plan.dialects:
        yield from _too_few_prompts(plan.max_samples, prompts, samples, total)


def _too_few_prompts(
    limit: Given[int] | None, prompts: Given[int], samples: Given[int], total: Given[int]
) -> Iterator[Finding]:
    """LightRFT counts the rollouts of an episode, and then divides by that."""
    least = _least_prompts(prompts.value, samples.value, total.value)
    if limit is None or not 0 < limit.value < least:
        return
    steps, batch = limit.value * samples.value // total.value, prompts.value * samples.value
    counted = f"num_rollouts_per_episodes = {limit.value} x {samples.value} // {total.value} x {total.value} // {batch}"
    yield _error(
        f"{limit.name} {limit.value} < {least}; {counted} = {steps * total.value // batch}",
        [limit, prompts, samples, total],
        text("With no rollout in an episode there is nothing to do, and the run divides by 0."),
        [text("Use {least} prompts at least, or lower {name}.", least=least, name=prompts.name)],
        source=LIGHTRFT,
    )


def _least_prompts(prompts: int, samples: int, total: int) -> int:
    """How large the dataset must be for one rollout an episode: the smallest D with ``D n // T x T // R // n > 0``."""
    batches = -(-prompts * samples // total)
    return -(-batches * total // samples)


def _lightrft(plan: Plan, prompts: Given[int], samples: Given[int], total: Given[int], product: str) -> Finding:
    rolled = prompts.value * samples.value
    least = _least_prompts(prompts.value, samples.value, total.value)
    updates = rolled // total.value
    return finding(
        "batch_size_config_error",
        "info",
        text("LightRFT's documented rule for batch sizes is not kept") + f": {product} > {total.name} {total.value}",
        arithmetic=[
            f"{product} > {total.name} {total.value}",
            text(
                "{rolled} / {value} = {updates} updates from one rollout, all but the first with a policy that "
                "did not make it",
                rolled=rolled,
                value=total.value,
                updates=updates,
            ),
        ],
        at=[total, prompts, samples],
        cause=text(
            "Its guide asks for {name} >= {name2} x {name3}. By its code the run fails "
            "(num_rollouts_per_episodes = 0) only with fewer than {least} prompts in the dataset; with more, "
            "it only updates {updates} times a rollout.",
            name=total.name,
            name2=prompts.name,
            name3=samples.name,
            least=least,
            updates=updates,
        ),
        steps=[
            text("Set {name} to {rolled} for one update a rollout", name=total.name, rolled=rolled)
            + (
                text(", or {name} to {value}.", name=prompts.name, value=total.value // samples.value)
                if total.value % samples.value == 0
                else text(".")
            ),
            text("Leave it so if {updates} updates are meant.", updates=updates),
        ],
        reference=LIGHTRFT,
        confidence="low",
    )


def _against_gpus(plan: Plan) -> Iterator[Finding]:
    prompts, samples, micro, world = (
        plan.prompts_per_rollout,
        plan.samples_per_prompt,
        plan.micro_rollout_batch_size,
        world_size(plan),
    )
    if not positive(prompts) or prompts is None or world is None:
        return
    if "lightrft" in plan.dialects and prompts.value < world.value:
        yield _error(
            f"{prompts.name} {prompts.value} // {world.value} GPUs = 0",
            [prompts, world],
            text("The prompts of a rollout are divided among all processes: a batch of 0 is no batch."),
            [text("Set {name} to {value} at least.", name=prompts.name, value=world.value)],
            source="https://github.com/opendilab/LightRFT/blob/main/examples/gsm8k_geo3k/train_colocate.py",
        )
    ranks = data_parallel(plan)
    if (
        "openrlhf" in plan.dialects
        and samples is not None
        and positive(micro)
        and micro is not None
        and ranks is not None
    ):
        batches = prompts.value * samples.value // micro.value
        if batches < ranks and not on(plan.dynamic_batch):
            yield _error(
                f"{prompts.name} {prompts.value} x {samples.name} {samples.value} // {micro.name} {micro.value} = {batches} < {ranks}",
                [micro, prompts, samples],
                text("Every actor process needs one batch of samples at least."),
                [text("Lower {name}, or raise {name2}.", name=micro.name, name2=prompts.name)],
            )


def _error(
    compared: str,
    at: list[Given[int] | None],
    cause: str,
    steps: list[str],
    *,
    severity: Literal["critical", "warning", "info"] = "critical",
    source: str | None = None,
) -> Finding:
    return finding(
        "batch_size_config_error",
        severity,
        text("The rollout's batch sizes do not fit together") + f": {compared}",
        arithmetic=[compared],
        at=at,
        cause=cause,
        steps=steps,
        reference=source or OPENRLHF,
        confidence="high" if severity == "critical" else "medium",
    )
