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
        text("Job {name} was submitted {since} ago and its driver has not started", name=name, since=time_words(since)),
        [f"job {name}"],
        evidence=[job.message[:500], text("its entry point: {entrypoint}", entrypoint=job.entrypoint)],
        cause=text(
            "Ray builds the job's runtime_env first, and where resources were asked for the entry point it "
            "waits for these."
        ),
        next_steps=[
            text(
                "See runtime_env_setup-*.log in the session's logs on the head node; lower "
                "`--entrypoint-num-cpus/-gpus`, or take the packages out of `--runtime-env`."
            )
        ],
        confidence="medium",
    )
