"""Which job of a cluster a person means."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import AmbiguousTarget, NoTarget
from ...language import text
from ...model import RayCluster, RayJobInfo
from .ours import is_ours

__all__ = ["job_id_of", "pick_job"]

MOST_NAMED = 12


def pick_job(cluster: RayCluster, named: str | None = None) -> RayJobInfo:
    """The job with the id or submission id `named` (its beginning will do where it is unique), else the only one that runs.

    Raises `NoTarget` and `AmbiguousTarget` with the jobs that there are.
    """
    if named:
        return _named(cluster.jobs, named)
    running = [job for job in cluster.jobs if job.running]
    if len(running) == 1:
        return running[0]
    if running:
        raise AmbiguousTarget(
            text("{count} jobs run in this cluster: {jobs}", count=len(running), jobs=_listed(running)),
            text("name one: ray:JOB@ADDRESS, or --job JOB"),
        )
    raise NoTarget(
        text("no job runs in this cluster; those that ended are {jobs}", jobs=_listed(cluster.jobs))
        if cluster.jobs
        else text("no job runs in this cluster"),
        text("start the job, or name one that ended"),
    )


def job_id_of(jobs: Sequence[RayJobInfo], named: str) -> str | None:
    """The id of the job that `named` means; None where that has no driver yet. Raises `NoTarget` and `AmbiguousTarget`."""
    return _named(jobs, named).job_id


def _named(jobs: Sequence[RayJobInfo], named: str) -> RayJobInfo:
    exact = [job for job in jobs if named in (job.job_id, job.submission_id)]
    found = exact or [
        job for job in jobs if any(name and name.startswith(named) for name in (job.job_id, job.submission_id))
    ]
    if len(found) == 1:
        return found[0]
    if found:
        running = [job for job in found if job.running]
        if len(running) == 1:
            return running[0]
        raise AmbiguousTarget(
            text("{named} names {count} jobs: {jobs}", named=named, count=len(found), jobs=_listed(found)),
            text("give the whole id"),
        )
    others = [job for job in jobs if not is_ours(job)]
    raise NoTarget(
        text("no job {named} in this cluster", named=named),
        text("its jobs are {jobs}", jobs=_listed(others)) if others else text("it has no jobs"),
    )


def _listed(jobs: Sequence[RayJobInfo]) -> str:
    running_first = sorted(jobs, key=lambda job: not job.running)
    shown = [
        f"{job.submission_id or job.job_id} ({job.status.lower()}: {job.entrypoint[:60]})"
        for job in running_first[:MOST_NAMED]
    ]
    more = len(jobs) - len(shown)
    listed = text(", ").join(shown)
    return text("{names} and {more} more", names=listed, more=more) if more > 0 else listed
