"""16-bit arithmetic: both kinds at once, fp16 without loss scaling, bf16 on a GPU that has none."""

from __future__ import annotations

import re

from ...language import text
from ...model import Finding, Given, NotAvailable, Plan
from .reading import finding, on

__all__ = ["rule"]

AMP = "https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling"
CAPABILITY = "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#arithmetic-instructions"
BEFORE_AMPERE = re.compile(
    r"\b(V100\S*|T4G?|P100\S*|P40|P4|K80|M60|GTX.*|TITAN.*|RTX 20\d\d.*|Quadro (RTX|GV|P|M|K).*|Tesla (V|T|P|K|M)\d+.*)\b",
    re.IGNORECASE,
)
"""Compute capability below 8.0: no bf16 in hardware."""


def rule(plan: Plan) -> list[Finding]:
    return [*_both(plan), *_unscaled(plan), *_unsupported(plan)]


def _is(dtype: Given[str] | None, short: str, long: str) -> bool:
    return dtype is not None and dtype.value.lower().rpartition(".")[2] in (short, long)


def _both(plan: Plan) -> list[Finding]:
    if not (on(plan.bf16) and on(plan.fp16)):
        return []
    return [
        finding(
            "cli_argument_error",
            "critical",
            text("bf16 and fp16 are both on"),
            arithmetic=["bf16 = fp16 = true"],
            at=[plan.fp16, plan.bf16],
            cause=text("transformers, DeepSpeed and Megatron refuse both."),
            steps=[text("Keep bf16 on Ampere and later, else fp16.")],
            reference="https://huggingface.co/docs/transformers/main_classes/trainer",
        )
    ]


def _unscaled(plan: Plan) -> list[Finding]:
    half = (
        plan.fp16 if on(plan.fp16) else plan.dtype if _is(plan.dtype, "fp16", "float16") and not on(plan.bf16) else None
    )
    scale = plan.loss_scale
    if half is None or scale is None or not 0 < scale.value <= 1:
        return []
    return [
        finding(
            "grad_scaler_underflow",
            "warning",
            text("fp16 without loss scaling") + f": {scale.name} {scale.value:g}",
            arithmetic=[
                f"{half.name} {half.value}, {scale.name} {scale.value:g}",
                text("the smallest fp16 number is 2^-24 = 6e-8: smaller gradients become 0"),
            ],
            at=[scale, half],
            cause=text("Gradients underflow: the loss stops falling, or updates are missing, without any error."),
            steps=[
                text("Set {name} to 0 (dynamic) or leave it out.", name=scale.name),
                text("Or use bf16, which has the range of fp32."),
            ],
            reference=AMP,
        )
    ]


def _unsupported(plan: Plan) -> list[Finding]:
    words = next((dtype for dtype in (plan.dtype, plan.loaded_in) if _is(dtype, "bf16", "bfloat16")), None)
    half = plan.bf16 if on(plan.bf16) else words
    gpus = plan.machine.gpus
    if half is None or half.file.endswith("default") or isinstance(gpus, NotAvailable):
        return []
    old = list(dict.fromkeys(gpu.name for gpu in gpus if BEFORE_AMPERE.search(gpu.name)))
    if not old:
        return []
    return [
        finding(
            "cuda_version_mismatch",
            "critical",
            text("{old} has no bf16", old=old[0]),
            arithmetic=[f"{', '.join(old)}: compute capability < 8.0"],
            at=[half],
            cause=text(
                "bf16 begins with Ampere (8.0). DeepSpeed, transformers and vLLM refuse it; torch emulates it, slowly."
            ),
            steps=[text("Use fp16 with dynamic loss scaling.")],
            reference=CAPABILITY,
        )
    ]
