"""verl: Hydra keys below ``actor_rollout_ref``; its train_batch_size counts prompts."""

from __future__ import annotations

from . import Dialect

__all__ = ["DIALECT"]

ACTOR = "actor_rollout_ref.actor."
ROLLOUT = "actor_rollout_ref.rollout."

DIALECT = Dialect(
    "verl",
    marks=("actor_rollout_ref.", "program:verl.trainer"),
    keys={
        "data.train_batch_size": "prompts_per_rollout",
        "data.max_prompt_length": "prompt_length",
        "data.max_response_length": "response_length",
        "data.dataloader_num_workers": "workers",
        "data.train_max_samples": "max_samples",
        ACTOR + "ppo_mini_batch_size": "mini_batch_prompts",
        ACTOR + "ppo_micro_batch_size": "micro_batch_everywhere",
        ACTOR + "ppo_micro_batch_size_per_gpu": "micro_batch_size",
        ACTOR + "use_dynamic_bsz": "dynamic_batch",
        ACTOR + "ulysses_sequence_parallel_size": "context_parallel",
        ACTOR + "strategy": "sharding",
        ACTOR + "fsdp_config.param_offload": "offload_parameters",
        ACTOR + "fsdp_config.optimizer_offload": "offload_optimizer",
        ACTOR + "megatron.tensor_model_parallel_size": "tensor_parallel",
        ACTOR + "megatron.pipeline_model_parallel_size": "pipeline_parallel",
        ACTOR + "megatron.expert_model_parallel_size": "expert_parallel",
        ACTOR + "megatron.context_parallel_size": "context_parallel",
        ROLLOUT + "n": "samples_per_prompt",
        ROLLOUT + "tensor_model_parallel_size": "engine_tensor_parallel",
        ROLLOUT + "pipeline_model_parallel_size": "engine_pipeline_parallel",
        ROLLOUT + "gpu_memory_utilization": "engine_memory_share",
        ROLLOUT + "max_model_len": "engine_length",
        ROLLOUT + "dtype": "engine_dtype",
        ROLLOUT + "free_cache_engine": "engine_sleeps",
        ROLLOUT + "log_prob_micro_batch_size_per_gpu": "micro_rollout_batch_size",
        "actor_rollout_ref.model.path": "model_path",
        "actor_rollout_ref.model.enable_gradient_checkpointing": "recompute",
        "actor_rollout_ref.model.lora_rank": "lora_rank",
        "algorithm.adv_estimator": "advantage_estimator",
        "trainer.nnodes": "nodes",
        "trainer.n_gpus_per_node": "processes_per_node",
        "trainer.default_local_dir": "save_directory",
        "trainer.max_actor_ckpt_to_keep": "keep_checkpoints",
        "trainer.save_freq": "save_every",
        "trainer.total_training_steps": "steps",
    },
    defaults={
        "samples_per_prompt": 1,
        "engine_sleeps": True,
        "colocated": True,
        "recompute": True,
        "sharding": "fsdp",
        "bf16": True,
    },
    complete=True,
    source="https://github.com/volcengine/verl/blob/main/verl/utils/config.py",
)
