"""What is different on one rank alone: a variable that has one value on every other rank, and by its source nothing to do with which rank
it is. In a job whose ranks wait for each other, with nothing that tells what they used to do, that rank may well have gone another way.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from ...language import text
from ...model import Finding, Value, Variable, rank_subjects
from ...words.values import value_words
from .case import Case
from .words import short_place

__all__ = ["FEWEST_RANKS", "Difference", "alone", "difference_words", "told"]

FEWEST_RANKS = 3
"""Of two ranks, nobody knows which is the odd one."""
MOST = 3
_CALLS = frozenset(
    {"collective_mismatch", "collective_not_issued", "collective_order", "lock_wait", "python_wait", "unequal_steps"}
)
"""Findings on a rank that has gone another way than the others."""


@dataclass(frozen=True)
class Difference:
    """``variable``: as `rank` has it; ``usual``: what all others have."""

    rank: int
    variable: Variable
    usual: Value


def alone(case: Case) -> Mapping[int, list[Difference]]:
    """By rank, what it alone has; of a value under several names the first. Linear in ranks and variables."""
    by_name: dict[tuple[str, str], dict[int, Variable]] = {}
    for view in case.views:
        for one in view.evidence.variables:
            by_name.setdefault((one.owner, one.name), {})[view.rank] = one
    last = max((view.rank for view in case.views), default=0)
    found: dict[int, list[Difference]] = {}
    for held in by_name.values():
        odd = _odd_one(held) if len(held) >= FEWEST_RANKS else None
        if odd is not None and _may_tell(held, odd.rank, last) and not _told(odd, found.get(odd.rank, [])):
            found.setdefault(odd.rank, []).append(odd)
    return {rank: told[:MOST] for rank, told in found.items()}


def told(case: Case, findings: Sequence[Finding]) -> list[Finding]:
    """The findings, and in the evidence of those that blame one rank for not doing what the others do, what is different there. Of those
    that know nobody to blame, as all do the same, the one rank that is different is.
    """
    nobody = [f for f in findings if _blames_nobody(case, f)]
    if not nobody and not any(_may_lead_to(f) for f in findings):
        return list(findings)
    differ = alone(case)
    if len(differ) == 1:
        (rank, told), *_ = differ.items()
        findings = [_blaming(f, rank, told) if f in nobody else f for f in findings]
    return [_with(f, differ.get(f.ranks[0], [])) if _may_lead_to(f) else f for f in findings]


def _blames_nobody(case: Case, finding: Finding) -> bool:
    """Whether all ranks stand at the same place, or wait for each other, and nothing tells why."""
    if finding.code == "hang_unexplained":
        return not finding.ranks and finding.confidence == "low"
    return finding.code == "python_wait" and len(case.views) >= FEWEST_RANKS and len(finding.ranks) == len(case.views)


def _blaming(finding: Finding, rank: int, told: Sequence[Difference]) -> Finding:
    return dataclasses.replace(
        finding,
        title=text("{title}; rank {rank} alone is not like the others", title=finding.title, rank=rank),
        who=rank_subjects([rank]),
        evidence=(*map(difference_words, told), *finding.evidence),
        confidence="low",
    )


def _may_lead_to(finding: Finding) -> bool:
    return finding.severity == "critical" and finding.code in _CALLS and len(finding.ranks) == 1


def _with(finding: Finding, differences: Sequence[Difference]) -> Finding:
    evidence = dict.fromkeys((*finding.evidence, *map(difference_words, differences)))
    return dataclasses.replace(finding, evidence=tuple(evidence))


def difference_words(one: Difference) -> str:
    """``rank 3 alone has validate = True at train.py:42 main; the others have False``."""
    return text(
        "rank {rank} alone has {name} = {value} at {at}; the others have {usual}",
        rank=one.rank,
        name=one.variable.name,
        value=value_words(one.variable.value),
        at=short_place(one.variable.frame),
        usual=value_words(one.usual),
    )


def _odd_one(held: Mapping[int, Variable]) -> Difference | None:
    """The one rank whose value is another than that of all the others."""
    keys = {rank: _key(one.value) for rank, one in held.items()}
    counts = Counter(keys.values())
    if None in counts or len(counts) != 2 or min(counts.values()) != 1:
        return None
    rank = next(rank for rank, key in keys.items() if counts[key] == 1)
    return Difference(rank, held[rank], next(one.value for other, one in held.items() if other != rank))


def _may_tell(held: Mapping[int, Variable], rank: int, last: int) -> bool:
    """Not where it has to do with the rank, or merely counts. Where the source does not say, the first and the last rank, which often are
    something special, are not held to be odd.
    """
    origins = {one.origin for one in held.values()}
    if origins & {"rank", "progress"}:
        return False
    return "not known" not in origins or rank not in (0, last)


def _told(one: Difference, before: list[Difference]) -> bool:
    """Whether the same is known by another name: ``self.args.depth`` of ``engine.args.depth``."""
    name = one.variable.name.rpartition(".")[2]
    return any(d.variable.name.rpartition(".")[2] == name and d.variable.value == one.variable.value for d in before)


def _key(value: Value) -> Hashable:
    """What tells values apart; None where nothing does."""
    if value.kind == "plain":
        return value.type, value.plain
    if value.kind in ("text", "function"):
        return value.type, value.words, value.size
    if value.kind in ("items", "pairs"):
        parts = tuple((at, _key(part)) for at, part in value.parts.items())
        return None if any(key is None for _, key in parts) else (value.type, value.size, parts)
    return (value.kind, value.type) if value.kind == "object" else None
