"""accelerate's YAML, and the options of ``accelerate launch``, which override it."""

from __future__ import annotations

from . import Dialect

__all__ = ["DIALECT"]

_CONFIG = {
    "num_machines": "nodes",
    "num_processes": "processes",
    "main_process_ip": "master_address",
    "main_process_port": "master_port",
    "mixed_precision": "dtype",
}
_DEEPSPEED = {
    "zero_stage": "zero_stage",
    "offload_optimizer_device": "offload_optimizer",
    "offload_param_device": "offload_parameters",
    "gradient_accumulation_steps": "accumulation",
}
_FSDP = {
    "fsdp_sharding_strategy": "sharding",
    "fsdp_reshard_after_forward": "sharding",
    "fsdp_offload_params": "offload_parameters",
    "fsdp_activation_checkpointing": "recompute",
}

DIALECT = Dialect(
    "accelerate",
    marks=("compute_environment", "distributed_type", "program:accelerate"),
    keys={
        **_CONFIG,
        **{f"deepspeed_config.{key}": field for key, field in _DEEPSPEED.items()},
        **{f"fsdp_config.{key}": field for key, field in _FSDP.items()},
        **{f"accelerate_launcher.{key}": field for key, field in {**_CONFIG, **_DEEPSPEED, **_FSDP}.items()},
    },
    source="https://huggingface.co/docs/accelerate/package_reference/cli",
)
