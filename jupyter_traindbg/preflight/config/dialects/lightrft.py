"""LightRFT: OpenRLHF's old flags, an engine of its own in every process, FSDP or DeepSpeed."""

from __future__ import annotations

from . import Dialect

__all__ = ["DIALECT"]

DIALECT = Dialect(
    "lightrft",
    marks=("rollout_batch_size", "engine_mem_util", "engine_tp_size", "enable_engine_sleep", "program:lightrft"),
    unless=(
        "vllm_num_engines",
        "actor_num_gpus_per_node",
        "vllm.num_engines",
        "actor.num_gpus_per_node",
        "program:openrlhf",
    ),
    keys={
        "micro_train_batch_size": "micro_batch_size",
        "train_batch_size": "train_batch_size",
        "rollout_batch_size": "prompts_per_rollout",
        "micro_rollout_batch_size": "micro_rollout_batch_size",
        "n_samples_per_prompt": "samples_per_prompt",
        "advantage_estimator": "advantage_estimator",
        "max_samples": "max_samples",
        "max_len": "sequence_length",
        "prompt_max_len": "prompt_length",
        "generate_max_len": "response_length",
        "pretrain": "model_path",
        "bf16": "bf16",
        "zero_stage": "zero_stage",
        "fsdp": "sharding",
        "fsdp_cpu_offload": "offload_parameters",
        "adam_offload": "offload_optimizer",
        "gradient_checkpointing": "recompute",
        "sp_size": "context_parallel",
        "engine_tp_size": "engine_tensor_parallel",
        "engine_mem_util": "engine_memory_share",
        "enable_engine_sleep": "engine_sleeps",
        "lora_rank": "lora_rank",
        "load_in_4bit": "load_in_4bit",
        "ckpt_path": "save_directory",
        "max_ckpt_num": "keep_checkpoints",
        "save_steps": "save_every",
        "num_workers": "workers",
    },
    defaults={"colocated": True, "zero_stage": 2},
    source="https://github.com/opendilab/LightRFT/blob/main/lightrft/strategy/strategy_base.py",
)
