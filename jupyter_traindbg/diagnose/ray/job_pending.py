"""A submitted job whose driver has not started: Ray waits for its runtime_env, or for room for the driver itself."""

from __future__ import annotations

from ...language import text
from ...model import RayJobInfo
from ...words.durations import time_words
from .case import Hit, RayCase, hit, known

__all__ = ["rule"]

LEAST_S = 20.0
"""A driver takes some seconds to start."""


def rule(case: RayCase) -> list[Hit]:
    hits = []
    for job in case.jobs:
        since = known(job.started_at)
        if job.status == "PENDING" and since is not None and case.cluster.taken_at - since > LEAST_S:
            hits.append(_hit(job, case.cluster.taken_at - since))
    return hits


def _hit(job: RayJobInfo, since: float) -> Hit:
    name = job.submission_id or job.job_id or "?"
    return hit(
        "ray_job_pending",
        "warning",
        text(
            f"Job {name} was submitted {time_words(since)} ago and its driver has not started",
            f"作业 {name} 已提交 {time_words(since)}，其 driver 尚未启动",
        ),
        [f"job {name}"],
        evidence=[job.message[:500], text(f"its entry point: {job.entrypoint}", f"入口命令：{job.entrypoint}")],
        cause=text(
            "Ray builds the job's runtime_env first, and where resources were asked for the entry point it waits for these.",
            "Ray 会先构建作业的 runtime_env；若为入口命令申请了资源，还会等待这些资源。",
        ),
        next_steps=[
            text(
                "See runtime_env_setup-*.log in the session's logs on the head node; lower `--entrypoint-num-cpus/-gpus`, or take the "
                "packages out of `--runtime-env`.",
                "查看 head 节点会话日志中的 runtime_env_setup-*.log；降低 `--entrypoint-num-cpus/-gpus`，"
                "或从 `--runtime-env` 中移除依赖包。",
            )
        ],
        confidence="medium",
    )
