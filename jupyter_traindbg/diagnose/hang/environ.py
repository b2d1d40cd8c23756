"""Environment variables that break the job, or harm it: see `jupyter_traindbg.diagnose.environment`."""

from __future__ import annotations

import dataclasses

from ...model import JobEvidence, NotAvailable, RankEvidence
from .. import environment
from .case import Case, Hit

EXPLAINS = {"environment": ("unequal_steps", "collective_mismatch", "collective_not_issued")}


def rule(case: Case) -> list[Hit]:
    """Only of a job that does not step, and only what breaks or harms: `%environ` shows the rest.

    What breaks a job breaks it before its first collective is through; then the ranks that have it are out of step for that. Other hits
    blame no ranks, so that two variables which the same rank has wrong stay two findings; their `who` names it.
    """
    environ = {r.rank: r.environ for r in case.evidence.ranks if not isinstance(r.environ, NotAvailable)}
    if case.roles("stepping") or not environ:
        return []
    versions = {name: words for host in case.evidence.hosts for name, words in host.versions.items()}
    found = environment.findings(environ, backend=_backend(case.evidence), versions=versions)
    if any(_has_worked(rank) for rank in case.evidence.ranks):
        found = [dataclasses.replace(f, severity="warning") if f.severity == "critical" else f for f in found]
    hits = [Hit(finding) for finding in found if finding.severity != "info"]
    if hits and hits[0].finding.severity == "critical":
        hits[0] = Hit(hits[0].finding, list(hits[0].finding.ranks))
    return hits


def _has_worked(rank: RankEvidence) -> bool:
    """Whether it has got through a collective, or made a step."""
    groups = () if isinstance(rank.collectives, NotAvailable) else rank.collectives.groups
    return any(group.last_completed for group in groups) or (
        not isinstance(rank.pace, NotAvailable) and rank.pace.steps > 0
    )


def _backend(evidence: JobEvidence) -> str | None:
    """That of the first group that any rank has, else what a rank that is still joining was told."""
    for rank in evidence.ranks:
        if not isinstance(rank.collectives, NotAvailable):
            named = next((group.backend for group in rank.collectives.groups if group.backend), None)
            if named:
                return named
    told = (r.joining.backend for r in evidence.ranks if not isinstance(r.joining, NotAvailable))
    return next((backend for backend in told if backend and backend != "undefined"), None)
