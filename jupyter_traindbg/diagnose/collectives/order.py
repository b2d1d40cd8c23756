"""A circle of waits: ranks that use several groups (or send and receive) in different order, so that each waits for the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...language import text
from ...model import Finding, RankCollectives, rank_subjects
from ...words.ranks import ranks_words
from .habit import departed
from .joined import longest_s
from .not_issued import Blocked
from .words import call_words, capital, group_words, places, since

__all__ = ["EXPLAINS", "finding"]

EXPLAINS = {"collective_order": ("collective_not_issued",)}


def finding(circle: Sequence[Blocked], records: Mapping[int, RankCollectives], where: Mapping[int, str]) -> Finding:
    """`circle`: blocked calls, each of which waits for a rank that is in the next one."""
    odd, sure = _odd(circle, records)
    ranks = sorted({w.rank for b in circle for w in b.waits})
    waited_s = longest_s(w for b in circle for w in b.waits)
    p2p = any(b.call.p2p for b in circle)
    return Finding(
        code="collective_order",
        severity="critical",
        title=_title(circle, odd if sure else [], ranks, waited_s, p2p=p2p),
        who=list(rank_subjects(odd)),
        where=next(
            (at for b in circle for w in b.waits if w.rank in odd and (at := w.call.at or where.get(w.rank))), None
        ),
        evidence=[_evidence(b, where) for b in circle],
        cause=_cause(p2p=p2p),
        next_steps=_steps(p2p=p2p),
        confidence="high" if sure else "medium",
    )


def _odd(circle: Sequence[Blocked], records: Mapping[int, RankCollectives]) -> tuple[list[int], bool]:
    """Who stands apart: a minority of the waiting ranks, or those that did not do what they had always done; else all."""
    inside = [sorted({w.rank for w in b.waits}) for b in circle]
    ranks = sorted({rank for own in inside for rank in own})
    largest = max(inside, key=len)
    if len(largest) * 2 > len(ranks) and len(largest) < len(ranks):
        return [rank for rank in ranks if rank not in largest], True
    unusual = [rank for rank in ranks if _unusual(records[rank])]
    if unusual and len(unusual) < len(ranks):
        return unusual, True
    return ranks, False


def _unusual(record: RankCollectives) -> bool:
    """Whether this rank's last call is another one than what used to follow the calls before it."""
    return departed([(c.group, c.op) for c in record.calls])


def _title(
    circle: Sequence[Blocked], odd: Sequence[int], ranks: Sequence[int], waited_s: float | None, *, p2p: bool
) -> str:
    if p2p:
        return text(
            "{ranks} wait for each other in {calls}{since}",
            ranks=capital(ranks_words(ranks)),
            calls=_calls(circle),
            since=since(waited_s),
            ranks2=ranks_words(ranks),
        )
    names = text(" and ").join(dict.fromkeys(group_words(b.group) for b in circle))
    if odd:
        return text(
            "{odd} used {names} in another order than the other ranks, and all wait for each other{since}",
            odd=capital(ranks_words(odd)),
            names=names,
            since=since(waited_s),
            odd2=ranks_words(odd),
        )
    return text(
        "{ranks} use {names} in different order and wait for each other{since}",
        ranks=capital(ranks_words(ranks)),
        names=names,
        since=since(waited_s),
        ranks2=ranks_words(ranks),
    )


def _calls(circle: Sequence[Blocked]) -> str:
    return text(" and ").join(dict.fromkeys(b.call.op for b in circle))


def _evidence(blocked: Blocked, where: Mapping[int, str]) -> str:
    ranks, others = ranks_words([w.rank for w in blocked.waits]), ranks_words(blocked.lacking)
    at = places(at for w in blocked.waits if (at := w.call.at or where.get(w.rank)) is not None)
    wait = "waits" if len(blocked.waits) == 1 else "wait"
    call, group = call_words(blocked.call), group_words(blocked.group)
    if blocked.call.p2p:
        return text("{ranks} {wait} in {call}{at}", ranks=ranks, wait=wait, call=call, at=at)
    return text(
        "{ranks} {wait} in {call} of {group}{at}; {others} did not issue it",
        ranks=ranks,
        wait=wait,
        call=call,
        group=group,
        at=at,
        others=others,
    )


def _cause(*, p2p: bool) -> str:
    if p2p:
        return text("Each of them sends, or receives, first: the counterpart comes only after a call that cannot end.")
    return text(
        "Calls on different groups end only if all ranks issue them in the same order: each waits for a "
        "call that the other has behind its own."
    )


def _steps(*, p2p: bool) -> list[str]:
    if p2p:
        return [text("Let one side receive first, or use `batch_isend_irecv` for exchanges.")]
    return [
        text("Fix one order of the groups for all ranks, also in overlapped communication (threads, hooks, streams).")
    ]
