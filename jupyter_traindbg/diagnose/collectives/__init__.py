"""Who holds up whom, from the ranks' records of collectives alone: different calls, a call never issued, groups in different order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...model import Finding, RankCollectives
from . import blocking, exchange, mismatch, stalled
from .joined import join, settles_in_s, waits

__all__ = ["findings", "settles_in_s"]

NOWHERE: Mapping[int, str] = {}


def findings(
    ranks: Sequence[RankCollectives],
    *,
    world_size: int,
    missing: Sequence[int] = (),
    where: Mapping[int, str] = NOWHERE,
    patient: bool = False,
) -> list[Finding]:
    """Root cause first. Codes: collective_mismatch, collective_shape_mismatch, collective_not_issued, unequal_steps, collective_order.

    `missing` ranks have no record. `where` is the frame of the user's code in which a rank is now, as far as known. `patient` leaves
    calls alone that have not waited for longer than is usual in this job: for a job of which nobody knows whether it is stuck. Nothing is
    found where nobody waits. Linear in the number of calls; about 1 s for 10,000 ranks.
    """
    places = {r.rank: r.where for r in ranks if r.where is not None} | dict(where)
    groups = join(ranks, world_size)
    waiting = waits(groups, ranks)
    if not any(w.odd or not patient for w in waiting):
        return []
    different = mismatch.mismatches(waiting)
    explained = {id(m.group) for m in different}
    blocked = [b for b in blocking.blocked(waiting, missing) if id(b.group) not in explained]
    case = blocking.Case(waiting, {r.rank: r for r in ranks}, places, blocked, patient=patient)
    found = [mismatch.finding(m, places) for m in different]
    found += exchange.findings(waiting, places)
    found += blocking.findings(case)
    return found or stalled.findings(waiting, places)
