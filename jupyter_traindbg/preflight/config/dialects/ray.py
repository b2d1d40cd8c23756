"""Ray: ScalingConfig of Ray Train, RLlib's env runners, and what self-written collectors call their workers.

``num_workers`` alone means those of a DataLoader nearly everywhere; below a section that is about collecting it means Ray's. Where it
is neither, the person says it: ``--workers KEY``.
"""

from __future__ import annotations

from . import Dialect

__all__ = ["COLLECTING", "DIALECT", "PER_WORKER"]

COLLECTING = (
    "actors", "collect", "collection", "collector", "env_runners", "exploration", "explorer", "ray", "ray_workers", "rollout",
    "rollouts", "sampler", "sampling", "scaling", "scaling_config", "self_play", "selfplay",
)  # fmt: skip
"""Sections whose workers are processes of Ray."""
HOW_MANY = ("num_workers", "n_workers", "num_actors", "worker_count")
PER_WORKER = "resources_per_worker"
OF_ONE = {
    "num_cpus_per_worker": "ray_cpus",
    "cpus_per_worker": "ray_cpus",
    "num_gpus_per_worker": "ray_gpus",
    "gpus_per_worker": "ray_gpus",
    "memory_per_worker": "ray_memory",
    "placement_strategy": "ray_strategy",
}

DIALECT = Dialect(
    "ray",
    marks=(),
    anywhere=True,
    keys={
        **{f"{section}.{name}": "ray_workers" for section in COLLECTING for name in HOW_MANY},
        **{f"{section}.device": "ray_device" for section in COLLECTING},
        **{f"{section}.use_gpu": "ray_use_gpu" for section in ("scaling", "scaling_config")},
        **OF_ONE,
        f"{PER_WORKER}.cpu": "ray_cpus",
        f"{PER_WORKER}.gpu": "ray_gpus",
        f"{PER_WORKER}.memory": "ray_memory",
        "num_ray_workers": "ray_workers",
        "ray_num_workers": "ray_workers",
        "num_collectors": "ray_workers",
        "num_selfplay_workers": "ray_workers",
        "num_env_runners": "ray_workers",
        "num_rollout_workers": "ray_workers",
        "num_cpus_per_env_runner": "ray_cpus",
        "num_gpus_per_env_runner": "ray_gpus",
    },
    source="https://docs.ray.io/en/latest/train/api/doc/ray.train.ScalingConfig.html",
)
