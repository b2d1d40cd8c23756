"""The baseline of corpus.py: the error indexes and problem lists of the usual troubleshooting guides, as keyword -> failure.

Written down from five guides in Chinese, as a reader with Ctrl-F would use them: the literal under "symptom" or in the index, and what the
section is about. Where several are in a log, the first one in the log counts.
"""

from __future__ import annotations

__all__ = ["KEYWORDS", "by_keywords"]

KEYWORDS: dict[str, str] = {
    "ModuleNotFoundError": "import_error",
    "no kernel image is available": "cuda_version_mismatch",
    "Failed building wheel": "install_failed",
    "CUDA out of memory": "cuda_oom",
    "torch.cuda.OutOfMemoryError": "cuda_oom",
    "Failed to allocate memory for KV cache": "kv_cache_oom",
    "num_rollouts_per_episodes": "batch_size_config_error",
    "loss: nan": "nan_loss",
    "gradient: nan": "nan_loss",
    "NaN loss": "nan_loss",
    "NCCL timeout": "nccl_timeout",
    "Caught collective operation timeout": "nccl_timeout",
    "Initializing process group": "dist_init_hang",
    "Failed to initialize vLLM": "vllm_init_fail",
    "Cannot allocate memory": "vllm_init_fail",
    "Engine already sleeping": "engine_weight_sync",
    "Waiting for rollout": "engine_weight_sync",
    "Checkpoint not found": "checkpoint_not_found_or_corrupt",
    "Error loading state dict": "checkpoint_not_found_or_corrupt",
    "Disk quota exceeded": "checkpoint_disk_full",
    "Cannot save checkpoint": "checkpoint_disk_full",
    "Missing key(s) in state_dict": "checkpoint_missing_keys",
    "Error(s) in loading state_dict": "checkpoint_missing_keys",
    "DDP Misconfiguration": "world_size_gpu_mismatch",
    "insufficient GPUs": "world_size_gpu_mismatch",
    "unrecognized arguments": "cli_argument_error",
    "Generating train split": "dataset_stuck",
    "init_model START": "dist_init_hang",
    "Collecting trajectories": "ray_workers_pending",
}


def by_keywords(log: str) -> list[str]:
    """The failures that the guides' keywords name in `log`, in the order in which they occur; case does not matter."""
    low = log.lower()
    at = sorted((low.index(word.lower()), failure) for word, failure in KEYWORDS.items() if word.lower() in low)
    return list(dict.fromkeys(failure for _, failure in at))
