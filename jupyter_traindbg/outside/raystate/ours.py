"""A cluster without what we ourselves have in it: the broker's job and its helper actors are nobody's training."""

from __future__ import annotations

import re
from dataclasses import replace

from ...model import NotAvailable, RayCluster, RayJobInfo

__all__ = ["BROKER", "is_ours", "without_ours"]

BROKER = "jupyter_traindbg.attach.ray.broker"
NAMESPACE = re.compile(r"traindbg-[0-9a-f]{12}")
"""Of our helper actors."""


def is_ours(job: RayJobInfo) -> bool:
    """Whether its driver is a broker."""
    return BROKER in job.entrypoint or "attach/ray/broker.py" in job.entrypoint


def without_ours(cluster: RayCluster) -> RayCluster:
    """The same look, without jobs whose driver is a broker of ours, and what belongs to them."""
    jobs = {job.job_id for job in cluster.jobs if is_ours(job)}
    jobs |= {actor.job_id for actor in cluster.actors if NAMESPACE.fullmatch(actor.namespace)}
    if not jobs:
        return cluster
    return replace(
        cluster,
        jobs=tuple(job for job in cluster.jobs if job.job_id not in jobs),
        actors=tuple(actor for actor in cluster.actors if actor.job_id not in jobs),
        tasks=cluster.tasks
        if isinstance(cluster.tasks, NotAvailable)
        else tuple(t for t in cluster.tasks if t.job_id not in jobs),
        processes=cluster.processes
        if isinstance(cluster.processes, NotAvailable)
        else tuple(p for p in cluster.processes if p.job_id not in jobs),
    )
