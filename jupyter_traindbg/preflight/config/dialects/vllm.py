"""vLLM's own options, as of ``vllm serve`` and of `LLM(...)` in a configuration."""

from __future__ import annotations

from . import Dialect

__all__ = ["DIALECT"]

DIALECT = Dialect(
    "vllm",
    marks=("gpu_memory_utilization", "max_model_len", "program:vllm"),
    unless=("actor_rollout_ref.", "micro_batch_size", "per_device_train_batch_size"),
    keys={
        "gpu_memory_utilization": "engine_memory_share",
        "max_model_len": "engine_length",
        "tensor_parallel_size": "engine_tensor_parallel",
        "pipeline_parallel_size": "engine_pipeline_parallel",
        "dtype": "engine_dtype",
        "kv_cache_dtype": "kv_cache_dtype",
        "model": "model_path",
    },
    source="https://docs.vllm.ai/en/stable/configuration/engine_args/",
)
