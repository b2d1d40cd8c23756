"""Megatron-LM's flags."""

from __future__ import annotations

from . import Dialect

__all__ = ["DIALECT"]

DIALECT = Dialect(
    "megatron",
    marks=("tensor_model_parallel_size", "global_batch_size"),
    unless=("actor_rollout_ref.",),
    keys={
        "tensor_model_parallel_size": "tensor_parallel",
        "pipeline_model_parallel_size": "pipeline_parallel",
        "context_parallel_size": "context_parallel",
        "expert_model_parallel_size": "expert_parallel",
        "sequence_parallel": "sequence_parallel",
        "micro_batch_size": "micro_batch_size",
        "global_batch_size": "train_batch_size",
        "seq_length": "sequence_length",
        "num_query_groups": "model.kv_heads",
        "kv_channels": "model.head_dim",
        "num_experts": "model.experts",
        "swiglu": "model.gated_mlp",
        "bf16": "bf16",
        "fp16": "fp16",
        "loss_scale": "loss_scale",
        "recompute_granularity": "recompute",
        "use_distributed_optimizer": "sharding",
        "save": "save_directory",
        "save_interval": "save_every",
        "train_iters": "steps",
        "train_samples": "max_samples",
        "num_workers": "workers",
    },
    source="https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/training/arguments.py",
)
