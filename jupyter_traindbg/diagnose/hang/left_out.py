"""A rank that has left out what others look for again and again: the file of its own among those of all ranks, or the one thing that all
others look for while it waits for them already.
"""

from __future__ import annotations

from ...language import counted, text
from ...model import Finding, rank_subjects
from ...words.ranks import ranks_words
from .case import Case, Hit, View
from .polls import Sought, looks, looks_at
from .words import place, short_place

__all__ = ["rule"]


def rule(case: Case) -> list[Hit]:
    """Nothing where a rank still works, or of one that is held up by something of its own."""
    if not case.overdue or case.roles("moving"):
        return []
    blamed = [v for v in case.views if v.rank in {missed.by for missed in case.left_out.values()}]
    return [_hit(case, v) for v in blamed if v.role == "waiting" or looks(v)]


def _hit(case: Case, blamed: View) -> Hit:
    looking = [v for v in case.views if v.rank in case.left_out and case.left_out[v.rank].by == blamed.rank]
    first, ranks = looking[0], [v.rank for v in looking]
    what, at = _words(case.left_out[first.rank].what), short_place(first.now.frame)
    own = any(file.unmade for file in first.evidence.polled)
    finding = Finding(
        "python_wait",
        "critical",
        counted(
            "Rank {rank} has left out {what}, for which {ranks} looks at {at}",
            "Rank {rank} has left out {what}, for which {ranks} look at {at}",
            len(ranks),
            rank=blamed.rank,
            what=what,
            ranks=ranks_words(ranks),
            at=at,
        ),
        rank_subjects([blamed.rank]),
        place(blamed.now.frame),
        [
            text("those of all other ranks are there")
            if own
            else text("all ranks but rank {rank} look for it", rank=blamed.rank),
            *(line for v in looking[:2] for line in looks_at(v)),
            *case.others_wait(),
        ],
        text(
            "Rank {rank} has gone on without doing its part: a branch, an early return, or an exception that was caught.",
            rank=blamed.rank,
        ),
        [
            text(
                "See on which way rank {rank} comes to {at} without it.",
                rank=blamed.rank,
                at=short_place(blamed.now.frame),
            ),
            text("Let a rank that has nothing to do make it, too, and give the loop at {at} an end.", at=at),
        ],
        confidence="high" if own else "medium",
    )
    return Hit(finding, [blamed.rank, *ranks])


def _words(what: Sought) -> str:
    if what.kind == "file":
        return text("the file {path}", path=what.name)
    return text("the key {key} of the process group's store", key=what.name)
