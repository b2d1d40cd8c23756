"""Which job of a cluster a person means."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import AmbiguousTarget, NoTarget
from ...model import RayCluster, RayJobInfo
from .ours import is_ours

__all__ = ["job_id_of", "pick_job"]

MOST_NAMED = 12


def pick_job(cluster: RayCluster, text: str | None = None) -> RayJobInfo:
    """The job with the id or submission id `text` (its beginning will do where it is unique), else the only one that runs.

    Raises `NoTarget` and `AmbiguousTarget` with the jobs that there are.
    """
    if text:
        return _named(cluster.jobs, text)
    running = [job for job in cluster.jobs if job.running]
    if len(running) == 1:
        return running[0]
    if running:
        raise AmbiguousTarget(
            text("{count} jobs run in this cluster: {listed}", count=len(running), listed=_listed(running)),
            text("name one: ray:JOB@ADDRESS, or --job JOB"),
        )
    ended = f"; those that ended are {_listed(cluster.jobs)}" if cluster.jobs else ""
    raise NoTarget(
        text("no job runs in this cluster{ended}", ended=ended), text("start the job, or name one that ended")
    )


def job_id_of(jobs: Sequence[RayJobInfo], text: str) -> str | None:
    """The id of the job that `text` names; None where that has no driver yet. Raises `NoTarget` and `AmbiguousTarget`."""
    return _named(jobs, text).job_id


def _named(jobs: Sequence[RayJobInfo], text: str) -> RayJobInfo:
    exact = [job for job in jobs if text in (job.job_id, job.submission_id)]
    found = exact or [
        job for job in jobs if any(name and name.startswith(text) for name in (job.job_id, job.submission_id))
    ]
    if len(found) == 1:
        return found[0]
    if found:
        running = [job for job in found if job.running]
        if len(running) == 1:
            return running[0]
        raise AmbiguousTarget(
            text("{text} names {count} jobs: {listed}", text=text, count=len(found), listed=_listed(found)),
            text("give the whole id"),
        )
    others = [job for job in jobs if not is_ours(job)]
    there = f"its jobs are {_listed(others)}" if others else "it has no jobs"
    raise NoTarget(text("no job {text} in this cluster", text=text), there)


def _listed(jobs: Sequence[RayJobInfo]) -> str:
    running_first = sorted(jobs, key=lambda job: not job.running)
    shown = [
        f"{job.submission_id or job.job_id} ({job.status.lower()}: {job.entrypoint[:60]})"
        for job in running_first[:MOST_NAMED]
    ]
    more = len(jobs) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
