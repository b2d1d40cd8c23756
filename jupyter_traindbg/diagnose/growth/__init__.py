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
    emptied = bool(groups) and held.is_emptied(groups[0])
    blamed = _ranks(found) - (held.too_small(groups) if emptied else set())
    found, rest = _proven(found, curves, blamed, alarms=not emptied)
    full = filling.findings([rank for rank in known if rank.rank in _ranks(rest) - blamed])
    full, rest = _proven(full, rest, blamed | _ranks(full), alarms=False)
    return [*found, *full, *rest]


def _ranks(findings_: Iterable[Finding]) -> set[int]:
    return {rank for finding in findings_ for rank in finding.ranks}


def _proven(
    found: Sequence[Finding], curves: Sequence[Finding], blamed: Set[int], *, alarms: bool
) -> tuple[list[Finding], list[Finding]]:
    """The first of `found` with what the curves of these ranks say, a warning then where that `alarms`; and the curves of other ranks."""
    theirs = [curve for curve in curves if found and set(curve.ranks) <= blamed]
    rest = [curve for curve in curves if curve not in theirs]
    if not theirs:
        return list(found), rest
    first, *others = found
    evidence = [*first.evidence, *(line for curve in theirs for line in curve.evidence)]
    return [replace(first, severity="warning" if alarms else first.severity, evidence=evidence), *others], rest
