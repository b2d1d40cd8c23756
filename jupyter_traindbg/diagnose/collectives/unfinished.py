"""A call that all ranks have issued, and that has ended on some and not on others: a GPU, or its link, stopped in the middle of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...language import counted, text
from ...model import Collective, Finding, rank_subjects
from ...words.ranks import ranks_words
from .joined import Joined, Wait, longest_s
from .not_issued import Blocked
from .words import call_words, capital, group_words, places, since

__all__ = ["EXPLAINS", "Half", "finding", "halves"]

EXPLAINS = {"collective_unfinished": ("collective_not_issued",)}
ALL_NEEDED = frozenset(
    {
        "all_reduce", "allreduce", "all_reduce_coalesced", "allreduce_coalesced", "all_reduce_barrier", "barrier", "all_gather",
        "_all_gather_base", "all_gather_into_tensor_coalesced", "reduce_scatter", "_reduce_scatter_base",
        "reduce_scatter_tensor_coalesced",
    }
)  # fmt: skip
"""What ends nowhere before all ranks have begun it. The root of a broadcast may be through at once, and an all_to_all sends no bytes
to some."""
MOST_NAMED = 3


@dataclass(frozen=True)
class Half:
    """A call that is still under way on the ranks of ``waits`` and has ended on those of ``done``."""

    group: Joined
    waits: tuple[Wait, ...]
    done: tuple[int, ...]

    @property
    def call(self) -> Collective:
        return self.waits[0].call

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(w.rank for w in self.waits)


def halves(waits: Sequence[Wait], *, patient: bool) -> list[Half]:
    """Those first that ended on most ranks. An all_to_all counts beside another call of the same ranks.

    `patient` leaves those alone that have not waited for longer than is usual.
    """
    by_call: dict[tuple[int, int], list[Wait]] = {}
    for wait in waits:
        if not wait.call.p2p and (wait.odd or not patient):
            by_call.setdefault((id(wait.group), wait.call.sequence), []).append(wait)
    found = [half for own in by_call.values() if (half := _half(own)).done]
    sure = {rank for half in found if half.call.op in ALL_NEEDED for rank in half.ranks}
    told = [h for h in found if h.call.op in ALL_NEEDED or (_all_to_all(h.call) and sure.issuperset(h.ranks))]
    return sorted(told, key=lambda h: -len(h.done))


def _half(waits: Sequence[Wait]) -> Half:
    """`waits`: in one call."""
    group, sequence = waits[0].group, waits[0].call.sequence
    done = tuple(rank for rank, member in group.members.items() if member.has_done(sequence))
    return Half(group, tuple(waits), done)


def _all_to_all(call: Collective) -> bool:
    return call.op.startswith(("all_to_all", "alltoall"))


# --- words ---------------------------------------------------------------------------------------------------------


def finding(found: Sequence[Half], behind: Sequence[Blocked], where: Mapping[int, str]) -> Finding:
    """`found`: not empty. `behind`: what others wait in for the same ranks, calls that these have not come to."""
    first = found[0]
    ranks = sorted({rank for half in found for rank in half.ranks})
    fewer = all(len(half.ranks) <= len(half.done) for half in found)
    return Finding(
        code="collective_unfinished",
        severity="critical",
        title=_title(first, ranks),
        who=list(rank_subjects(ranks)),
        where=next((at for h in found for w in h.waits if (at := w.call.at or where.get(w.rank)) is not None), None),
        evidence=_evidence(found, behind, where),
        cause=_cause(ranks, on_cpu=first.group.backend == "gloo"),
        next_steps=_steps(ranks, on_cpu=first.group.backend == "gloo"),
        confidence="high" if fewer and len(found) > 1 else "medium" if fewer else "low",
    )


def _title(first: Half, ranks: Sequence[int]) -> str:
    return text(
        "{ranks} stopped in the middle of a call: {call} of {group} has ended on {done} and not on {own}{since}",
        ranks=capital(ranks_words(ranks)),
        call=call_words(first.call),
        group=group_words(first.group),
        done=ranks_words(first.done),
        own=ranks_words(first.ranks),
        since=since(longest_s(first.waits)),
        ranks2=ranks_words(ranks),
    )


def _evidence(found: Sequence[Half], behind: Sequence[Blocked], where: Mapping[int, str]) -> list[str]:
    said = [_ended_elsewhere(half, where) for half in found[:MOST_NAMED]]
    if more := len(found[MOST_NAMED:]):
        said.append(counted("and so in {n} more group", "and so in {n} more groups", more))
    if behind:
        others = ranks_words({w.rank for b in behind for w in b.waits})
        ranks = ranks_words({rank for b in behind for rank in b.lacking})
        said.append(
            counted(
                "{others}: in {n} call that {ranks} did not come to any more",
                "{others}: in {n} calls that {ranks} did not come to any more",
                len(behind),
                others=others,
                ranks=ranks,
            )
        )
    return said


def _ended_elsewhere(half: Half, where: Mapping[int, str]) -> str:
    at = places(at for w in half.waits if (at := w.call.at or where.get(w.rank)) is not None)
    oldest = [member.pending for rank in half.done if (member := half.group.members[rank]).pending is not None]
    past = min((c.sequence for c in oldest if c is not None), default=None)
    further = "" if past is None else text(", where #{past} is under way", past=past)
    return text(
        "{call} of {group}: under way on {ranks}{at}, ended on {done}{further}",
        call=call_words(half.call),
        group=group_words(half.group),
        ranks=ranks_words(half.ranks),
        at=at,
        done=ranks_words(half.done),
        further=further,
    )


def _cause(ranks: Sequence[int], *, on_cpu: bool) -> str:
    if on_cpu:
        return text(
            "Such a call ends nowhere before every rank has begun it, so nobody has left it out. On {ranks} it stopped on the way: a "
            "connection to the others, or the thread that carries it out.",
            ranks=ranks_words(ranks),
        )
    return text(
        "Such a call ends nowhere before every rank has begun it, so nobody has left it out. On {ranks} it stopped on the way: a GPU "
        "(an error, its memory, its link to the others), or the thread of torch that watches it.",
        ranks=ranks_words(ranks),
    )


def _steps(ranks: Sequence[int], *, on_cpu: bool) -> list[str]:
    if on_cpu:
        return [
            text(
                "Look at all threads of {ranks}, and for a connection that broke: `%stacks`, `%diagnose`.",
                ranks=ranks_words(ranks),
            )
        ]
    return [
        text(
            "Look for a CUDA or NCCL error in the log of {ranks}, for an Xid in the kernel's log of its host (`dmesg`), and "
            "at the GPU there: `%gpu`.",
            ranks=ranks_words(ranks),
        ),
        text(
            "If another start fails on the same host or GPU, leave it out and have it tested: the fault is not in the program."
        ),
    ]
