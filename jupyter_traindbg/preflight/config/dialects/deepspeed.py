"""DeepSpeed's JSON. Its values may be ``auto``: then transformers or accelerate fill them in, and they say nothing."""

from __future__ import annotations

from . import Dialect

__all__ = ["DIALECT"]

DIALECT = Dialect(
    "deepspeed",
    marks=(
        "zero_optimization.",
        "train_micro_batch_size_per_gpu",
        "zero_allow_untested_optimizer",
        "program:deepspeed",
    ),
    unless=("actor_rollout_ref.",),
    keys={
        "train_batch_size": "train_batch_size",
        "train_micro_batch_size_per_gpu": "micro_batch_size",
        "gradient_accumulation_steps": "accumulation",
        "bf16.enabled": "bf16",
        "bfloat16.enabled": "bf16",
        "fp16.enabled": "fp16",
        "fp16.loss_scale": "loss_scale",
        "zero_optimization.stage": "zero_stage",
        "zero_optimization.offload_optimizer.device": "offload_optimizer",
        "zero_optimization.offload_param.device": "offload_parameters",
        "zero_optimization.cpu_offload": "offload_optimizer",
        "optimizer.type": "optimizer",
        "tensor_parallel.autotp_size": "tensor_parallel",
    },
    source="https://www.deepspeed.ai/docs/config-json/",
)
