"""Ranks that wait for each other at different places, where no flight recorder could be read: their stacks say they are not in one call.

Which call has which number is not known then. That the ranks are in different calls is: the fewer of them are the odd ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...language import text
from ...model import Finding, rank_subjects
from ...words.ranks import ranks_words
from .case import Case, Hit, View
from .doing import phrase
from .words import alike, place, short_place

__all__ = ["rule"]

_KINDS = frozenset({"collective", "backward"})


def rule(case: Case) -> list[Hit]:
    """One verdict at most, on a job in which everybody waits for others in a collective. Recorders know better."""
    waiting = case.waiting
    if (
        not case.overdue
        or case.suspects
        or case.roles("ended", "not known")
        or any(v.collectives is not None for v in case.views)
    ):
        return []
    if not waiting or any(v.now.kind not in _KINDS for v in waiting):
        return []
    groups = sorted(alike(waiting, _call), key=len)
    if len(groups) < 2 or case.gathering:
        return []
    return [_hit(case, groups)]


def _call(view: View) -> tuple[object, ...]:
    return view.now.kind, view.now.operation, view.now.frame


def _hit(case: Case, groups: Sequence[Sequence[View]]) -> Hit:
    most = groups[-1]
    odd = [same for same in groups if len(same) < len(most)] or groups
    blamed = [v for same in odd for v in same]
    ranks = [v.rank for v in blamed]
    other = {(v.now.kind, v.now.operation) for v in blamed} != {(most[0].now.kind, most[0].now.operation)}
    even = len(blamed) == len(case.waiting)
    title = text(
        "{ranks} {does} at {at}, and {rest} {does2} at {at2}: they are not in the same call",
        ranks=ranks_words(v.rank for v in odd[0]).capitalize(),
        does=phrase(odd[0][0].now, len(odd[0])),
        at=short_place(odd[0][0].now.frame),
        rest=ranks_words(v.rank for v in most),
        does2=phrase(most[0].now, len(most)),
        at2=short_place(most[0].now.frame),
        ranks2=ranks_words(v.rank for v in odd[0]),
    )
    finding = Finding(
        "collective_mismatch",
        "critical",
        title,
        rank_subjects(ranks),
        place(blamed[0].now.frame),
        [_stands(case, same) for same in groups[:6]],
        text(
            "A call of a collective needs all ranks. Some have left one out or made one more, in a branch or a loop that is "
            "not the same on all of them."
        )
        if other
        else text(
            "The same call at different lines may be one call in two branches; it may also be that some ranks are a call ahead."
        ),
        [
            text(
                "Compare the ways that lead to these lines: a branch on the rank, a loop of another length, an exception that was caught."
            ),
            text(
                "What the flight recorders have of the calls tells which one was left out: put their dumps beside these stacks."
            ),
        ],
        confidence="medium" if other and not even else "low",
    )
    return Hit(finding, ranks)


def _stands(case: Case, same: Sequence[View]) -> str:
    ranks = ranks_words(v.rank for v in same)
    return text("{ranks}: {does} at {at}", ranks=ranks, does=phrase(same[0].now, len(same)), at=case.at(same[0].now))
