"""Why a job hangs: evidence in, a `Diagnosis` out, root cause first. Pure functions: no I/O, no clock.

First what each rank does over time, who waits for whom, and whether that has lasted longer than is usual for this job (`case`); then all
rules, one file per family, each ``rule(case) -> list[Hit]``; then the root cause first, with its symptoms as its evidence (`order`). Adding
a rule is one new file here that has a ``rule``.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

from ...model import Diagnosis, Finding, JobEvidence
from . import again, order
from .again import over_time
from .case import Case, Hit, build
from .states import rank_states, state

__all__ = ["Case", "Hit", "diagnose", "over_time", "rules", "settles_in_s"]

Rule = Callable[[Case], list[Hit]]


def diagnose(evidence: JobEvidence) -> Diagnosis:
    """Judge a job by what was seen of it. Linear in the number of ranks; 0.1 ms a rank."""
    case = build(evidence)
    found = _findings(case)
    called, why = state(case, found)
    named = {name for finding in found for name in finding.who}  # that one of these is silent is told there
    return Diagnosis(
        target=evidence.name,
        state=called,
        why=tuple(why),
        ranks=rank_states(case),
        verdict=tuple(found),
        silent=tuple(s for s in evidence.silent if f"rank {s.rank}" not in named),
        taken_s=evidence.taken_s,
    )


def settles_in_s(evidence: JobEvidence) -> float | None:
    """After how many seconds a second look would settle what this evidence leaves open; None where it leaves nothing open."""
    case = build(evidence)
    return again.settles_in_s(case, _findings(case))


def _findings(case: Case) -> list[Finding]:
    return order.findings([hit for rule in rules() for hit in rule(case)])


def rules() -> list[Rule]:
    """The ``rule`` of every module here that has one, by name."""
    modules = (importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__))
    return [module.rule for module in modules if hasattr(module, "rule")]
