"""transformers' TrainingArguments, and what stands on them: TRL, LLaMA-Factory, axolotl."""

from __future__ import annotations

from . import Dialect

__all__ = ["DIALECT"]

DIALECT = Dialect(
    "transformers",
    marks=("per_device_train_batch_size", "model_name_or_path", "output_dir", "micro_batch_size", "base_model"),
    unless=("actor_rollout_ref.", "tensor_model_parallel_size"),
    keys={
        "per_device_train_batch_size": "micro_batch_size",
        "micro_batch_size": "micro_batch_size",
        "gradient_accumulation_steps": "accumulation",
        "model_name_or_path": "model_path",
        "base_model": "model_path",
        "bf16": "bf16",
        "fp16": "fp16",
        "torch_dtype": "loaded_in",
        "dtype": "loaded_in",
        "pure_bf16": "loaded_in",
        "finetuning_type": "tuning",
        "adapter": "tuning",
        "optim": "optimizer",
        "use_galore": "low_rank_states",
        "use_apollo": "low_rank_states",
        "use_badam": "low_rank_states",
        "optimizer": "optimizer",
        "gradient_checkpointing": "recompute",
        "attn_implementation": "attention",
        "fsdp": "sharding",
        "dataloader_num_workers": "workers",
        "dataloader_prefetch_factor": "prefetch",
        "output_dir": "save_directory",
        "save_total_limit": "keep_checkpoints",
        "save_steps": "save_every",
        "max_steps": "steps",
        "save_only_model": "save_only_model",
        "max_seq_length": "sequence_length",
        "max_length": "sequence_length",
        "cutoff_len": "sequence_length",
        "sequence_len": "sequence_length",
        "model_max_length": "sequence_length",
        "lora_rank": "lora_rank",
        "lora_r": "lora_rank",
        "load_in_4bit": "load_in_4bit",
        "load_in_8bit": "load_in_8bit",
        # TRL's GRPO
        "num_generations": "samples_per_prompt",
        "max_prompt_length": "prompt_length",
        "max_completion_length": "response_length",
        "vllm_gpu_memory_utilization": "engine_memory_share",
        "vllm_tensor_parallel_size": "engine_tensor_parallel",
        "vllm_max_model_length": "engine_length",
        "vllm_enable_sleep_mode": "engine_sleeps",
    },
    source="https://huggingface.co/docs/transformers/main_classes/trainer",
)
