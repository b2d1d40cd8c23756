"""Room on the disk for the checkpoints that the run is going to keep."""

from __future__ import annotations

from ...language import text
from ...model import Finding, Plan
from .estimate import estimate, has_master_copy, parameters
from .reading import adapters_only, finding, gib, on, positive, stored_bytes

__all__ = ["checkpoint_bytes", "rule"]

TRAINER = (
    "https://huggingface.co/docs/transformers/main_classes/trainer#transformers.TrainingArguments.save_total_limit"
)
LORA_SHARE = 0.01


def rule(plan: Plan) -> list[Finding]:
    place = plan.save_directory
    each = checkpoint_bytes(plan)
    if place is None or each is None:
        return []
    free = plan.machine.disk_free_bytes.get(place.value)
    if free is None:
        return []
    count, words = _how_many(plan)
    needed = count * each
    if needed <= free:
        return []
    compared = f"{words} x {gib(each)} = {gib(needed)} > {gib(free)}"
    fits = int(free // each)
    return [
        finding(
            "checkpoint_disk_full",
            "critical" if fits < 1 else "warning",
            text("The checkpoints do not fit on the disk") + f": {compared}",
            arithmetic=[compared, _what_one_is(plan, each)],
            at=[plan.keep_checkpoints, plan.save_every, place],
            cause=text("A save that finds no room leaves a damaged file, and ends the run or what it was to protect."),
            steps=[
                text("Keep {fits} at most, as the new one is written before the oldest goes.", fits=fits - 1)
                if fits >= 2
                else text("Choose another disk."),
                text("Or make room below {value}, or save the model without the optimizer.", value=place.value),
            ],
            reference=TRAINER,
            confidence="medium",
        )
    ]


def checkpoint_bytes(plan: Plan) -> int | None:
    """One checkpoint, of all ranks together: weights, and (unless only the model is saved) the optimizer's states and fp32 weights."""
    total = parameters(plan.model)
    found = estimate(plan)
    if total is None or not found:
        return None
    trained = total * LORA_SHARE if adapters_only(plan) else total
    if on(plan.save_only_model):
        return int(trained * 2)
    if has_master_copy(plan):
        return int(trained * 14)  # weights in 16 bits, their copies in fp32 and two states of Adam: ZeRO's 2 + 12
    return int(
        trained * 3 * (stored_bytes(plan) or 2)
    )  # the weights and two states; where it is not said in what, at least


def _how_many(plan: Plan) -> tuple[int, str]:
    """The most that are there at a time: one more than are kept; without a limit all that are saved."""
    keep, every, steps = plan.keep_checkpoints, plan.save_every, plan.steps
    saved = (
        steps.value // every.value
        if steps is not None and every is not None and positive(steps) and positive(every)
        else None
    )
    if keep is not None and keep.value > 0:
        count = keep.value + 1 if saved is None else min(keep.value + 1, max(1, saved))
        return count, f"{keep.name} {keep.value} + 1"
    if saved is not None and steps is not None and every is not None:
        return max(1, saved), f"{steps.name} {steps.value} / {every.name} {every.value}"
    return 1, "1"


def _what_one_is(plan: Plan, each: int) -> str:
    total = parameters(plan.model) or 1
    return text(
        "one checkpoint: {total:.3g} B parameters, {each:.3g} bytes each", total=total / 1000000000.0, each=each / total
    )
