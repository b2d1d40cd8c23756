"""What is wrong with a job that runs, or hangs: evidence in, a `Diagnosis` out, root cause first. Pure functions: no I/O, no clock.

First what each rank does over time, who waits for whom, and whether that has lasted longer than is usual for this job (`hang.case`); then
all rules, of hangs (`hang`) and of trainings that run and are not sound (`soundness`); then the root cause first, with its symptoms as its
evidence (`hang.order`).
"""

from __future__ import annotations

from ..model import Diagnosis, JobEvidence
from . import hang, located, soundness
from .at_source import at_source
from .hang import again, differing, once, order, passed
from .hang.again import over_time
from .hang.case import Case, Hit, build
from .hang.states import rank_states, state

__all__ = ["diagnose", "over_time", "settles_in_s"]


def diagnose(evidence: JobEvidence) -> Diagnosis:
    """Judge a job by what was seen of it. Linear in the number of ranks; 0.1 ms a rank, and 2 ms for the memory of each that steps."""
    case = build(evidence)
    hits = _hits(case)
    found = passed.told(case, differing.told(case, once.weighed(case, order.findings(hits))))
    called, why = state(case, found)
    named = {rank for finding in found for rank in finding.ranks}  # that one of these is silent is told there
    ended = {view.rank for view in case.roles("ended")}  # and of these, in their state
    return Diagnosis(
        target=evidence.name,
        state=called,
        why=tuple(why),
        ranks=rank_states(case),
        verdict=tuple(at_source(located.told(found, case.places), evidence.sources)),
        silent=tuple(s for s in evidence.silent if s.rank not in named and s.rank not in ended),
        taken_s=evidence.taken_s,
        checks=tuple(soundness.checks(case, [hit.finding for hit in hits])),
    )


def settles_in_s(evidence: JobEvidence) -> float | None:
    """After how many seconds a second look would settle what this evidence leaves open; None where it leaves nothing open."""
    case = build(evidence)
    if case.over:
        return None
    left_open = (again.settles_in_s(case, order.findings(_hits(case))), soundness.settles_in_s(case))
    return max((s for s in left_open if s is not None), default=None)


def _hits(case: Case) -> list[Hit]:
    return [hit for rule in (*hang.rules(), *soundness.rules()) for hit in rule(case)]
