"""What the flight recorders say: different calls under one number, different sizes, another order, a call that a rank never issued."""

from __future__ import annotations

from collections.abc import Sequence

from ...model import Finding, RankCollectives
from ..collectives import findings
from .case import Case, Hit
from .other_hosts import only_elsewhere
from .partners import waits_outside
from .peers import peer_of
from .this_round import made
from .words import place

_CONCLUSIVE = frozenset({"collective_mismatch", "collective_shape_mismatch", "collective_order"})
"""What these say of the past does not change by waiting."""


def rule(case: Case) -> list[Hit]:
    """In a job that steps, records taken at slightly different moments differ, and mean nothing."""
    if case.roles("stepping") or not case.waiting:
        return []
    records = [r for v in case.views if isinstance(r := v.evidence.collectives, RankCollectives)]
    hits = [_hit(case, f) for f in _compared(case, records)] if records else []
    hits = [h for h in hits if not only_elsewhere(case, h.ranks)]  # the rule for other hosts knows better
    hits = [h for h in hits if not (_told_by_peers(case, h) or _wait_themselves(case, h) or _wait_outside(case, h))]
    moving = {v.rank for v in case.roles("moving")}
    return [h for h in hits if h.finding.code in _CONCLUSIVE or (case.overdue and not moving & set(h.ranks))]


def _told_by_peers(case: Case, hit: Hit) -> bool:
    """Rings of sends and receives whose frames are seen: the rule for these knows the lines and the variables."""
    views = [case.by_rank[rank] for rank in hit.ranks if rank in case.by_rank]
    in_ring = hit.finding.code == "collective_order" and all(peer_of(v) is not None for v in views)
    return in_ring and bool(views) and case.overdue


def _wait_themselves(case: Case, hit: Hit) -> bool:
    """Whether all whom it blames for a missing call wait in a send or receive that is in no record: none of them is the reason."""
    views = [case.by_rank[rank] for rank in hit.ranks if rank in case.by_rank]
    unrecorded = all(v.role == "waiting" and v.now.kind == "peer" and v.pending is None for v in views)
    return hit.finding.code == "collective_not_issued" and bool(views) and unrecorded


def _wait_outside(case: Case, hit: Hit) -> bool:
    """Whether all whom it blames wait for a process outside of the job: the rule for these knows which."""
    chains = case.chains
    known = [case.by_rank[rank] for rank in hit.ranks if rank in chains and rank in case.by_rank]
    return bool(hit.ranks) and len(known) == len(hit.ranks) and all(waits_outside(v, chains[v.rank]) for v in known)


def _compared(case: Case, records: Sequence[RankCollectives]) -> list[Finding]:
    known = {r.rank for r in records}
    missing = [v.rank for v in case.views if v.rank not in known]
    where = {v.rank: at for v in case.views if (at := place(v.now.frame)) is not None}
    return findings(records, world_size=case.evidence.world_size, missing=missing, where=where, past=_past(case))


def _past(case: Case) -> set[tuple[int, int]]:
    told = [one for one in case.evidence.past if one.behind and made(case, one) is False]
    return {(rank, other) for one in told for rank in one.ranks for other in one.others}


def _hit(case: Case, finding: Finding) -> Hit:
    """Without the ranks that are late because they wait for one peer, where others are blamed as well: those are the reason."""
    own = [rank for rank in finding.ranks if rank not in case.by_rank or peer_of(case.by_rank[rank]) is None]
    return Hit(finding, own or finding.ranks)
