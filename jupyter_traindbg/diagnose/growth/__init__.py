"""What grows at each step, who holds it, and what to do about it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import replace

from ...model import Finding, RankMemory
from . import filling, held, native, workers

__all__ = ["findings"]


def findings(ranks: Iterable[RankMemory], curves: Sequence[Finding]) -> list[Finding]:
    """What holds more at each step, the most first, for all ranks together; then what fills up to a bound, where a curve has said that
    memory grows; then those of `curves` for whose ranks no holder is known. Of others they are evidence.
    """
    known = list(ranks)
    groups = held.without_end(known)
    explained = {one.rank for same in groups for one in same}
    found = [held.finding(same) for same in groups]
    found += native.findings([rank for rank in known if rank.rank not in explained])
    found += workers.findings(known)
    blamed = _ranks(found)
    if found:
        found[0] = _proven(found[0], curves, blamed, alarms=not groups or not held.is_emptied(groups[0]))
    open_ = _ranks(curves) - blamed
    full = filling.findings([rank for rank in known if rank.rank in open_])
    blamed |= _ranks(full)
    if full:
        full[0] = _proven(full[0], curves, blamed, alarms=False)
    return [*found, *full, *(curve for curve in curves if not set(curve.ranks) <= blamed)]


def _ranks(findings_: Iterable[Finding]) -> set[int]:
    return {rank for finding in findings_ for rank in finding.ranks}


def _proven(finding: Finding, curves: Sequence[Finding], blamed: Set[int], *, alarms: bool) -> Finding:
    """With what the curves of these ranks say, where they do say that memory grows; a warning then, where that `alarms`."""
    lines = [line for curve in curves if set(curve.ranks) <= blamed for line in curve.evidence]
    if not lines:
        return finding
    return replace(finding, severity="warning" if alarms else finding.severity, evidence=[*finding.evidence, *lines])
