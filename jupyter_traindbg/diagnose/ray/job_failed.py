"""A job that has failed: there is nobody left to look at, but Ray knows how it ended."""

from __future__ import annotations

from ...language import text
from ...model import NotAvailable, RayJobInfo
from .case import Hit, RayCase, hit

__all__ = ["rule"]

LAST_LINES, LONGEST = 6, 300


def rule(case: RayCase) -> list[Hit]:
    """The last one, where none runs any more. One that ended well, or was stopped, is no finding."""
    if any(j.running for j in case.jobs):
        return []
    ended = sorted(case.jobs, key=lambda j: 0.0 if isinstance(j.ended_at, NotAvailable) else j.ended_at)
    return [_hit(ended[-1])] if ended and ended[-1].status == "FAILED" else []


def _hit(job: RayJobInfo) -> Hit:
    name = job.submission_id or job.job_id or "?"
    lines = [line.strip()[:LONGEST] for line in job.message.splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    said = f": {last}" if last else ""
    return hit(
        "ray_job_failed",
        "critical",
        text("Job {name} has failed{said}", name=name, said=said),
        [f"job {name}"],
        evidence=[text("its entry point was: {entrypoint}", entrypoint=job.entrypoint), *lines[-LAST_LINES:]],
        cause=text("Its driver ended with an error."),
        next_steps=[
            text("Read its log: `ray job logs {name} > job.log`, then `traindbg diagnose job.log`.", name=name)
        ],
    )
