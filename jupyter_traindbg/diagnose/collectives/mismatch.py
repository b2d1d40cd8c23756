"""Ranks that issued different calls under the same number of a group: another operation, another size, another dtype."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ...language import text
from ...model import Collective, Finding, rank_subjects
from ...words.ranks import ranks_words
from .habit import expected
from .joined import Joined, Wait
from .words import call_words, capital, group_words, places, sizes_words

__all__ = ["EXPLAINS", "Mismatch", "finding", "mismatches"]

EXPLAINS = {
    "collective_mismatch": ("collective_not_issued",),
    "collective_shape_mismatch": ("collective_not_issued",),
}
UNEVEN = frozenset(
    {
        "all_to_all",
        "all_to_all_single",
        "alltoall",
        "alltoall_base",
        "all_to_all_v_single",
        "all_gather_v",
        "reduce_scatter_v",
    }
)
"""Each rank may pass another size to these."""
BY_OUTPUT = frozenset({"scatter"})
"""Only the root passes something to these; every rank gets something."""
REFERENCE = "https://pytorch.org/docs/stable/distributed.html#debugging-torch-distributed-applications"

Signature = tuple[tuple[str, ...], tuple[str, ...], int | None]
"""The operations, the dtypes and the number of elements of what one rank issued under one number."""


@dataclass(frozen=True)
class Mismatch:
    """What the ranks of `group` issued as number `sequence`, by signature. ``odd`` are to blame."""

    group: Joined
    sequence: int
    kind: Literal["op", "load"]
    ranks: Mapping[Signature, Sequence[int]]
    odd: Sequence[int]
    confidence: Literal["high", "medium", "low"]

    def call(self, rank: int) -> Collective:
        return self.group.members[rank].calls[self.sequence][0]


def mismatches(waits: Iterable[Wait]) -> list[Mismatch]:
    """The first mismatch of each group in which somebody waits."""
    groups = {id(w.group): w.group for w in waits if not w.call.p2p}
    return [found for group in groups.values() if (found := _first(group)) is not None]


def _first(group: Joined) -> Mismatch | None:
    for sequence in sorted({n for member in group.members.values() for n in member.calls}):
        issued = {rank: m.calls[sequence] for rank, m in group.members.items() if sequence in m.calls}
        if len(issued) < 2:
            continue
        kind = _kind(issued, everybody=len(issued) == len(group.ranks))
        if kind is not None:
            return _mismatch(group, sequence, kind, issued)
    return None


def _kind(issued: Mapping[int, list[Collective]], *, everybody: bool) -> Literal["op", "load"] | None:
    """Whether the ranks' calls differ, and in what. Sizes only matter while a call is under way: what is done has worked."""
    first, *others = issued.values()
    operations = _operations(first)
    if any(_operations(calls) != operations for calls in others):
        return "op"
    if all(c.state == "completed" for calls in issued.values() for c in calls):
        return None
    if operations[0] in UNEVEN:
        return "load" if everybody and _unbalanced(issued.values()) else None
    loads = {_load(calls) for calls in issued.values()}
    known = {load for load in loads if load[1] is not None}
    return "load" if len(known) > 1 else None


def _operations(calls: Sequence[Collective]) -> tuple[str, ...]:
    return tuple(c.op for c in calls)


def _load(calls: Sequence[Collective]) -> tuple[tuple[str, ...], int | None]:
    dtypes: dict[str, None] = {}
    elements = 0
    known = False
    for call in calls:
        sizes = call.output_sizes if call.op in BY_OUTPUT else call.input_sizes or call.output_sizes
        dtypes.update(dict.fromkeys(call.dtypes))
        elements += sum(math.prod(size) for size in sizes)
        known = known or bool(sizes)
    return tuple(sorted(dtypes)), elements if known else None


def _unbalanced(issued: Iterable[Sequence[Collective]]) -> bool:
    """Of an all_to_all: whether the ranks together send another amount than they take."""
    calls = [c for many in issued for c in many]
    if not all(c.input_sizes and c.output_sizes for c in calls):
        return False
    sent = sum(math.prod(size) for c in calls for size in c.input_sizes)
    return sent != sum(math.prod(size) for c in calls for size in c.output_sizes)


def _signature(calls: Sequence[Collective]) -> Signature:
    return (_operations(calls), *_load(calls))


def _mismatch(
    group: Joined, sequence: int, kind: Literal["op", "load"], issued: Mapping[int, list[Collective]]
) -> Mismatch:
    ranks: dict[Signature, list[int]] = {}
    for rank, calls in issued.items():
        signature = _signature(calls)
        ranks.setdefault((signature[0], (), None) if kind == "op" else signature, []).append(rank)
    odd, confidence = _odd(group, sequence, kind, ranks)
    return Mismatch(group, sequence, kind, ranks, odd, confidence)


def _odd(
    group: Joined, sequence: int, kind: str, ranks: Mapping[Signature, Sequence[int]]
) -> tuple[list[int], Literal["high", "medium", "low"]]:
    """Who differs from most; between equals, who differs from what the program did before; else nobody can tell."""
    total = sum(map(len, ranks.values()))
    most = max(ranks, key=lambda s: len(ranks[s]))
    if kind == "load" and most[0][0] in UNEVEN:
        return sorted(rank for same in ranks.values() for rank in same), "low"
    if 2 * len(ranks[most]) > total:
        return sorted(rank for s, same in ranks.items() if s != most for rank in same), "high"
    usual = expected(_history(group, sequence, kind))
    if usual is not None and usual in ranks:
        return sorted(rank for s, same in ranks.items() if s != usual for rank in same), "medium"
    return sorted(rank for same in ranks.values() for rank in same), "low"


def _history(group: Joined, sequence: int, kind: str) -> list[Signature]:
    """What the rank with the longest record issued before."""
    calls = max((m.calls for m in group.members.values()), key=len)
    found = [_signature(own) for number, own in calls.items() if number < sequence]
    return [(s[0], (), None) for s in found] if kind == "op" else found


# --- words ---------------------------------------------------------------------------------------------------------


def finding(mismatch: Mismatch, where: Mapping[int, str]) -> Finding:
    """`where`: the user's frame of a rank, as far as known."""
    by_op = mismatch.kind == "op"
    return Finding(
        code="collective_mismatch" if by_op else "collective_shape_mismatch",
        severity="critical",
        title=_title(mismatch),
        who=list(rank_subjects(mismatch.odd)),
        where=_at(mismatch, mismatch.odd[0], where),
        evidence=[_evidence(mismatch, ranks, where) for ranks in mismatch.ranks.values()],
        cause=_cause_op(mismatch) if by_op else _cause_load(),
        next_steps=_steps(by_op=by_op),
        reference=REFERENCE,
        confidence=mismatch.confidence,
    )


def _at(mismatch: Mismatch, rank: int, where: Mapping[int, str]) -> str | None:
    call = mismatch.call(rank)
    return call.at or (where.get(rank) if call.state != "completed" else None) or where.get(rank)


def _title(mismatch: Mismatch) -> str:
    group, n = group_words(mismatch.group), mismatch.sequence
    odd = set(mismatch.odd)
    others = sorted(rank for ranks in mismatch.ranks.values() for rank in ranks if rank not in odd)
    one = mismatch.call(min(odd))
    if not others:
        what = text("operations") if mismatch.kind == "op" else text("amounts of data")
        return (
            text(
                "{odd} issued different {what} as {op} #{n} of {group}",
                odd=capital(ranks_words(mismatch.odd)),
                what=what,
                op=one.op,
                n=n,
                group=group,
                odd2=ranks_words(mismatch.odd),
            )
            if mismatch.kind != "op"
            else text(
                "{odd} issued different {what} as #{n} of {group}",
                odd=capital(ranks_words(mismatch.odd)),
                what=what,
                n=n,
                group=group,
                odd2=ranks_words(mismatch.odd),
            )
        )
    other = mismatch.call(others[0])
    if mismatch.kind == "op":
        return text(
            "{odd} issued {op} as #{n} of {group}, where {others} issued {op2}",
            odd=capital(ranks_words(mismatch.odd)),
            op=one.op,
            n=n,
            group=group,
            others=ranks_words(others),
            op2=other.op,
            odd2=ranks_words(mismatch.odd),
        )
    mine, theirs = sizes_words(one), sizes_words(other)
    return text(
        "{odd} passed {mine} to {call_words} of {group}, where {others} passed {theirs}",
        odd=capital(ranks_words(mismatch.odd)),
        mine=mine,
        call_words=call_words(one),
        group=group,
        others=ranks_words(others),
        theirs=theirs,
        odd2=ranks_words(mismatch.odd),
    )


def _evidence(mismatch: Mismatch, ranks: Sequence[int], where: Mapping[int, str]) -> str:
    call = mismatch.call(ranks[0])
    at = places(at for rank in ranks if (at := _at(mismatch, rank, where)) is not None)
    sizes = f" {sizes_words(call)}" if sizes_words(call) else ""
    done = {mismatch.call(rank).state == "completed" for rank in ranks}
    state = text("done") if done == {True} else text("not done")
    return f"{ranks_words(ranks)}: {call_words(call)}{sizes} ({state}){at}"


def _cause_op(mismatch: Mismatch) -> str:
    odd = ranks_words(mismatch.odd)
    return text(
        "The ranks have lost step with each other here: a call in a branch that not every rank takes "
        "(`if rank == 0:`), one that {odd} skipped, or a loop that is longer on some ranks.",
        odd=odd,
    )


def _cause_load() -> str:
    return text(
        "A collective moves the same amount on every rank: batches, vocabularies or lists of parameters "
        "that differ between ranks do not fit."
    )


def _steps(*, by_op: bool) -> list[str]:
    first = text(
        "Let every rank of the group issue the same calls in the same order: move the call out of the "
        "branch, or into it on all ranks."
    )
    if not by_op:
        first = text(
            "Pad to the same size, or exchange the sizes first (all_gather), and use the same dtype on all ranks."
        )
    return [
        first,
        text(
            "Run once with TORCH_DISTRIBUTED_DEBUG=DETAIL: torch then checks every call and raises at the "
            "first that differs."
        ),
    ]
