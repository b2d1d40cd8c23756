"""Who holds up whom, from the ranks' records of collectives alone: different calls, a call never issued, groups in different order."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ...model import Finding, RankCollectives
from . import blocking, exchange, mismatch, nobody_missing, roots, stalled, unfinished
from .joined import join, settles_in_s, waits
from .not_issued import Blocked

__all__ = ["findings", "settles_in_s", "unexplained"]

NOWHERE: Mapping[int, str] = {}


def findings(
    ranks: Sequence[RankCollectives],
    *,
    world_size: int,
    missing: Sequence[int] = (),
    where: Mapping[int, str] = NOWHERE,
    past: Collection[tuple[int, int]] = (),
    patient: bool = False,
) -> list[Finding]:
    """Root cause first. Codes: collective_mismatch, collective_shape_mismatch, collective_unfinished, collective_not_issued, unequal_steps,
    collective_order.

    `missing` ranks have no record. `where` is the frame of the user's code in which a rank is now, as far as known; `past` has (rank,
    another one) where the rank is past the line at which the other one is, by the source, and has not made that call. `patient` leaves
    calls alone that have not waited for longer than is usual in this job: for a job of which nobody knows whether it is stuck. Nothing is
    found where nobody waits. Linear in the number of calls; about 1 s for 10,000 ranks.
    """
    places = {r.rank: r.where for r in ranks if r.where is not None} | dict(where)
    groups = join(ranks, world_size)
    waiting = waits(groups, ranks)
    if not any(w.odd or not patient for w in waiting):
        return []
    different = mismatch.mismatches(waiting)
    rooted = roots.several(waiting)
    explained = {id(m.group) for m in different} | {id(r.group) for r in rooted}
    halves = [h for h in unfinished.halves(waiting, patient=patient) if id(h.group) not in explained]
    halted = {rank for half in halves for rank in half.ranks}
    blocked = [b for b in blocking.blocked(waiting, missing) if id(b.group) not in explained]
    behind, blocked = _parted(blocked, halted)
    case = blocking.Case(waiting, {r.rank: r for r in ranks}, places, blocked, past, patient=patient)
    found = [mismatch.finding(m, places) for m in different]
    found += [roots.finding(one, places) for one in rooted]
    found += exchange.findings(waiting, places)
    found += [unfinished.finding(halves, behind, places)] if halves else []
    found += blocking.findings(case)
    return found or stalled.findings(waiting, places)


def unexplained(ranks: Sequence[RankCollectives], *, world_size: int) -> list[Finding]:
    """Where `findings` has nothing to say of records that were written because a job stood still: who waits in what.

    Code: hang_unexplained. Nothing where nobody waits.
    """
    waiting = waits(join(ranks, world_size), ranks)
    return [nobody_missing.finding(waiting)] if waiting else []


def _parted(blocked: Sequence[Blocked], halted: Collection[int]) -> tuple[list[Blocked], list[Blocked]]:
    """The calls that lack nobody but ranks in `halted`, and the others."""
    behind = [b for b in blocked if b.lacking and set(b.lacking) <= set(halted)]
    ids = {id(b) for b in behind}
    return behind, [b for b in blocked if id(b) not in ids]
