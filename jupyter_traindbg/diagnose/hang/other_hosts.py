"""When every rank of this host waits, whoever holds them up is on another one: what cannot be seen from here is not accused."""

from __future__ import annotations

from collections.abc import Sequence

from ...language import text
from ...model import Finding, rank_subjects
from ...words.ranks import ranks_words
from . import ras
from .case import Case, Hit, View
from .words import and_list

__all__ = ["only_elsewhere", "rule"]


def rule(case: Case) -> list[Hit]:
    """Nothing where a rank of this host is to blame, where the job moves, or where NCCL's own service names somebody."""
    elsewhere = [v for v in case.views if _is_elsewhere(v)]
    if not elsewhere or not case.waiting or not case.overdue or case.suspects or case.roles("stepping", "ended"):
        return []
    return [] if ras.rule(case) else [_look_there(case, elsewhere)]


def only_elsewhere(case: Case, ranks: Sequence[int]) -> bool:
    """Whether all of `ranks` are on other hosts: no record of theirs was read, so that its absence here says nothing."""
    return bool(ranks) and all(r in case.by_rank and _is_elsewhere(case.by_rank[r]) for r in ranks)


def _is_elsewhere(view: View) -> bool:
    return view.role == "not seen" and not view.evidence.host


def _look_there(case: Case, elsewhere: Sequence[View]) -> Hit:
    ranks = [v.rank for v in elsewhere]
    here = and_list(sorted({v.evidence.host for v in case.waiting}))
    words = ranks_words(ranks)
    finding = Finding(
        "collective_not_issued",
        "critical",
        text(
            "All ranks on {here} wait: who holds them up is among {words}, which have no process here",
            here=here,
            words=words,
        ),
        rank_subjects(ranks),
        None,
        case.others_wait(),
        text("They run on other hosts, of which nothing can be seen from here, or have ended."),
        [
            text("Run `traindbg diagnose` on each of the other hosts: one of them has the rank that does not wait."),
            text("Or collect the flight recorder dumps of all hosts and run `traindbg nccl-check DIR`."),
        ],
        confidence="low",
    )
    return Hit(finding, ranks)
