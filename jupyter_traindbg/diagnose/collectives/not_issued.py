"""A rank has not issued the call that others wait in: the words of it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...language import counted, text
from ...model import Collective, Finding, NotAvailable, RankCollectives, rank_subjects
from ...words.ranks import ranks_words
from .joined import Joined, Member, Wait, longest_s
from .words import call_words, capital, group_words, places, since, sizes_words

__all__ = ["Blocked", "Hold", "finding"]

MOST_NAMED, MOST_INDIRECT = 4, 2


@dataclass(frozen=True)
class Blocked:
    """A call that the ranks of ``waits`` are in and that cannot be done: ``lacking`` have not issued it, ``absent`` have no record."""

    group: Joined
    waits: tuple[Wait, ...]
    lacking: tuple[int, ...]
    absent: tuple[int, ...]

    @property
    def call(self) -> Collective:
        return self.waits[0].call

    @property
    def waited_s(self) -> float | None:
        return longest_s(self.waits)

    @property
    def issued_s(self) -> float:
        times = (w.call.issued_s for w in self.waits)
        return min((t for t in times if not isinstance(t, NotAvailable)), default=math.inf)


@dataclass(frozen=True)
class Hold:
    """``roots`` hold up the calls of ``blocked``, and through them those of ``indirect``. ``sure``: nobody else can be to blame."""

    roots: Sequence[int]
    blocked: Sequence[Blocked]
    indirect: Sequence[Blocked]
    sure: bool = True

    @property
    def first(self) -> Blocked:
        """The call that most ranks wait in, of several the one that was issued first."""
        return max(self.blocked, key=lambda b: (len(b.waits), b.waited_s or 0.0, -b.issued_s))

    @property
    def waited_s(self) -> float | None:
        return longest_s(w for b in self.blocked for w in b.waits)

    @property
    def known(self) -> bool:
        """Whether the roots have a record: all of them do, or none."""
        return self.roots[0] in self.first.group.members


def finding(hold: Hold, records: Mapping[int, RankCollectives], where: Mapping[int, str]) -> Finding:
    """`where`: the users' frames, as far as known."""
    roots, first, known = hold.roots, hold.first, hold.known
    gone = known and _left_its_group(roots, first, records)
    title = _title_gone if gone else _title_lacking if known else _title_absent
    return Finding(
        code="unequal_steps" if gone else "collective_not_issued",
        severity="critical",
        title=title(roots, first, hold.waited_s),
        who=list(rank_subjects(roots)),
        where=next((where[rank] for rank in roots if rank in where), None),
        evidence=_evidence(hold, where),
        cause=_cause(roots, known=known, gone=gone),
        next_steps=_steps(roots, known=known, gone=gone),
        confidence="high" if hold.sure and known and not any(b.absent for b in hold.blocked) else "medium",
    )


def _evidence(hold: Hold, where: Mapping[int, str]) -> list[str]:
    first = hold.first
    said = [_waiting(b, where) for b in [first, *(b for b in hold.blocked if b is not first)][:MOST_NAMED]]
    if hold.known:
        members = hold.first.group.members
        said += [_lacking(rank, members[rank], where) for rank in hold.roots[:MOST_NAMED]]
        apart = _first_other_place(hold.first.group, hold.roots[0])
        said += [_apart(*apart)] if apart is not None else []
    said += [_indirectly(b) for b in hold.indirect[:MOST_INDIRECT]]
    more = hold.indirect[MOST_INDIRECT:]
    return [*said, _more(more)] if more else said


def _left_its_group(roots: Sequence[int], blocked: Blocked, records: Mapping[int, RankCollectives]) -> bool:
    """In a live rank every group shows that it has; where the default one is gone as well, all were destroyed, as programs do when they are
    through. A rank that has that one may never have made the other.
    """
    members = blocked.group.members
    return all(members[rank].left and _has_no_default(records[rank]) for rank in roots if rank in members)


def _has_no_default(record: RankCollectives) -> bool:
    return record.source == "agent" and all(group.description != "default_pg" for group in record.groups)


def _title_lacking(roots: Sequence[int], blocked: Blocked, waited_s: float | None) -> str:
    has = "has" if len(roots) == 1 else "have"
    waiting = ranks_words([w.rank for w in blocked.waits])
    group, call = group_words(blocked.group), call_words(blocked.call)
    wait = "waits" if len(blocked.waits) == 1 else "wait"
    if blocked.call.p2p:
        other = "recv" if blocked.call.op == "send" else "send"
        return text(
            "{roots} {has} not issued the {other} for which {waiting} {wait} in {call}{since}",
            roots=capital(ranks_words(roots)),
            has=has,
            other=other,
            waiting=waiting,
            wait=wait,
            call=call,
            since=since(waited_s),
            roots2=ranks_words(roots),
        )
    return text(
        "{roots} {has} not issued {call} of {group}, in which {waiting} {wait}{since}",
        roots=capital(ranks_words(roots)),
        has=has,
        call=call,
        group=group,
        waiting=waiting,
        wait=wait,
        since=since(waited_s),
        roots2=ranks_words(roots),
    )


def _title_gone(roots: Sequence[int], blocked: Blocked, waited_s: float | None) -> str:
    waiting = ranks_words([w.rank for w in blocked.waits])
    group, call = group_words(blocked.group), call_words(blocked.call)
    return text(
        "{roots} left {group} already, while {waiting} still wait in {call}{since}",
        roots=capital(ranks_words(roots)),
        group=group,
        waiting=waiting,
        call=call,
        since=since(waited_s),
        roots2=ranks_words(roots),
    )


def _title_absent(roots: Sequence[int], blocked: Blocked, waited_s: float | None) -> str:
    waiting = ranks_words([w.rank for w in blocked.waits])
    group, call = group_words(blocked.group), call_words(blocked.call)
    return text(
        "There is no record of {roots}, for which {waiting} wait in {call} of {group}{since}",
        roots=ranks_words(roots),
        waiting=waiting,
        call=call,
        group=group,
        since=since(waited_s),
    )


def _waiting(blocked: Blocked, where: Mapping[int, str]) -> str:
    at = places(at for w in blocked.waits if (at := w.call.at or where.get(w.rank)) is not None)
    sizes = f" ({sizes_words(blocked.call)})" if sizes_words(blocked.call) else ""
    ranks = ranks_words([w.rank for w in blocked.waits])
    group, call = group_words(blocked.group), call_words(blocked.call)
    wait = "waits" if len(blocked.waits) == 1 else "wait"
    return text(
        "{ranks} {wait} in {call}{sizes} of {group}{since}{at}",
        ranks=ranks,
        wait=wait,
        call=call,
        sizes=sizes,
        group=group,
        since=since(blocked.waited_s),
        at=at,
    )


def _lacking(rank: int, member: Member, where: Mapping[int, str]) -> str:
    last = member.last()
    came = text("never issued a collective of this group")
    if last is not None:
        came = text("issued {call_words} last", call_words=call_words(last))
    elif member.last_issued:
        came = text("came as far as #{last_issued}", last_issued=member.last_issued)
    here = places([where[rank]]) if rank in where else ""
    at = text(", and is{here} now", here=here, here2=here[1:]) if here else ""
    return f"{ranks_words([rank])} {came}{at}"


def _indirectly(blocked: Blocked) -> str:
    ranks = ranks_words([w.rank for w in blocked.waits])
    group, call = group_words(blocked.group), call_words(blocked.call)
    wait = "waits" if len(blocked.waits) == 1 else "wait"
    others = blocked.lacking or blocked.absent
    whom = ranks_words(others) if others else text("ranks that its record does not name")
    return text(
        "in turn, {ranks} {wait} in {call} of {group} for {whom}",
        ranks=ranks,
        wait=wait,
        call=call,
        group=group,
        whom=whom,
    )


def _more(blocked: Sequence[Blocked]) -> str:
    ranks = len({w.rank for b in blocked for w in b.waits})
    return text("and so do {ranks} more ranks in {count} more calls", ranks=ranks, count=len(blocked))


# --- the same calls from other places ------------------------------------------------------------------------------


def _first_other_place(group: Joined, rank: int) -> tuple[int, int, str, str] | None:
    """(rank, number, its place, the others' place) from which on all calls of `rank` come from other lines than those of the others: the
    call that it skipped, or made twice, where calls look alike.
    """
    own = group.members[rank].calls
    apart: tuple[int, int, str, str] | None = None
    for number in sorted(own, reverse=True):
        mine = own[number][0].at
        others = Counter(m.calls[number][0].at for r, m in group.members.items() if r != rank and number in m.calls)
        usual = others.most_common(1)[0][0] if others else None
        if mine is None or usual is None or mine == usual:
            break
        apart = rank, number, mine, usual
    return apart if apart is not None and min(own) < apart[1] else None


def _apart(rank: int, number: int, mine: str, theirs: str) -> str:
    mine, theirs = places([mine]), places([theirs])
    return text(
        "from #{number} on rank {rank} issues its calls from other lines than the others ({mine}, where "
        "they are{theirs}): there it skipped a call",
        number=number,
        rank=rank,
        mine=mine.strip(),
        theirs=theirs,
        mine2=mine[1:],
        theirs2=theirs[1:],
    )


# --- words ---------------------------------------------------------------------------------------------------------


def _cause(roots: Sequence[int], *, known: bool, gone: bool) -> str:
    ranks = ranks_words(roots)
    if gone:
        return text(
            "{ranks} ran fewer steps than the others: its data or its loop ended earlier, and it closed the "
            "process group.",
            ranks=capital(ranks),
            ranks2=ranks,
        )
    if not known:
        return text(
            "The others wait for {ranks}: ended, killed, stopped, unable to answer, or on a host that was "
            "not looked at.",
            ranks=ranks,
        )
    return counted(
        "A collective ends when every rank of its group has issued it. What {ranks} does instead holds up the others.",
        "A collective ends when every rank of its group has issued it. What {ranks} do instead holds up the others.",
        len(roots),
        ranks=ranks,
    )


def _steps(roots: Sequence[int], *, known: bool, gone: bool) -> list[str]:
    ranks = ranks_words(roots)
    if gone:
        return [
            text(
                "Give every rank the same number of batches (DistributedSampler with drop_last, or equal "
                "shards), or wrap the loop in `with Join([model]):`."
            )
        ]
    if not known:
        return [
            text(
                "Look at the log and the exit status of {ranks}; `traindbg diagnose` does, while its launcher runs.",
                ranks=ranks,
            )
        ]
    return [
        counted(
            "See what {ranks} does: `%stacks`; `traindbg diagnose` looks for the reason.",
            "See what {ranks} do: `%stacks`; `traindbg diagnose` looks for the reason.",
            len(roots),
            ranks=ranks,
        ),
        text(
            "If it is past this call already, it skipped it: look for a branch or a `continue` that only "
            "this rank took."
        ),
    ]
