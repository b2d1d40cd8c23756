"""A job in which nobody moves, and where all its waits lead: from a driver in `ray.get`, call by call and connection by connection, to the
one that waits for nobody known.

Whether that one waits for too long nobody can tell here: a driver waits for its server, and that one for its clients, for days. More is
said where a worker waits for another one's answer, and where a lock is waited for, or a disk: these are given within moments.
"""

from __future__ import annotations

from ...language import text
from ..hang import ring, stop_words
from ..hang.case import Case
from ..hang.partners import Chain
from ..hang.ranks import View
from ..hang.stops import Stop
from ..hang.words import place, short_place
from .case import Hit, RayCase, hit

__all__ = ["asking", "leads", "rule"]

MOST_ASKING = 16
_WITHIN = frozenset({"queue", "thread", "coroutine", "future"})
"""Waits for something that comes from the same process, or that somebody brings whom nobody knows."""
_SOON = frozenset({"lock", "file", "device", "child"})
"""What no server waits for while it has nothing to do."""


def asking(case: RayCase) -> list[str]:
    """Who waits for a result; those first for whose results nobody waits, a driver as a rule."""
    waits = [row.who for row in case.rows if row.pid and case.waits_on_ray(row) and case.view(row) is not None]
    waited = {who for row in case.rows for who in row.waits_for}
    return sorted(waits, key=lambda who: who in waited)[:MOST_ASKING]


def rule(case: RayCase) -> list[Hit]:
    """One finding for each ring, else for each end at which waits come together."""
    judged = case.waits
    if judged is None or not case.stands_still:
        return []
    chains = [(view, chain) for view in judged.views if (chain := judged.chains.get(view.rank)) is not None]
    rings = {frozenset(_members(view, chain)): (view, chain) for view, chain in chains if chain.ring}
    if rings:
        return [_in_a_ring(case, judged, view, chain) for view, chain in rings.values()]
    hits: dict[tuple[object, ...], Hit] = {}
    for view, chain in chains:
        if _is_too_long(chain):
            hits.setdefault((chain.last.process, chain.last.tid), _hit(case, judged, view, chain))
    return list(hits.values())


def _members(view: View, chain: Chain) -> list[str]:
    return [view.evidence.who, *(stop.who or stop_words.short(stop) for stop in chain.stops)]


def _in_a_ring(case: RayCase, judged: Case, view: View, chain: Chain) -> Hit:
    members = [who for who in _members(view, chain) if who in case.by_who]
    return Hit(ring.ring(judged, view, chain), frozenset(members), frozenset(case.by_who))


def _is_too_long(chain: Chain) -> bool:
    """Whom it leads to is not to blame where that one waits for other ranks: these are judged by themselves."""
    last = chain.last
    if last.together:
        return False
    if last.state not in ("stands", "inward") or last.seen.kind == "sleep":
        return last.state in ("stopped", "asleep")
    return len(chain.stops) > 1 or last.seen.kind in _SOON


def leads(case: RayCase) -> list[str]:
    """By what is known of a job of which it is not known whether it is stuck: where its waits lead."""
    judged = case.waits
    if judged is None:
        return []
    ends = [(view, chain) for view in judged.views if (chain := judged.chains.get(view.rank)) is not None]
    return [
        text(
            "{who} waits, in the end, for {process}, which {does}",
            who=view.evidence.who,
            process=stop_words.short(chain.last),
            does=_does(chain.last),
        )
        for view, chain in ends
        if not chain.ring
    ]


def _hit(case: RayCase, judged: Case, view: View, chain: Chain) -> Hit:
    last = chain.last
    onward = ring.beside(judged, view)
    assert onward is not None
    within = last.seen.kind in _WITHIN
    return hit(
        "ray_worker_stuck",
        "warning" if within else "critical",
        text(
            "{process} {does}, and {who} waits for it",
            process=stop_words.named(last),
            does=_does(last),
            who=view.evidence.who,
        ),
        [case.by_who.get(last.who) or stop_words.short(last)],
        place(last.seen.users),
        evidence=onward.evidence,
        cause=onward.cause,
        next_steps=[onward.step, onward.rescue],
        confidence="low" if within or onward.unsure else "medium",
        explains=case.rows,
    )


def _does(last: Stop) -> str:
    return stop_words.does(last) + stop_words.at(short_place(last.seen.frame), last.seen)
