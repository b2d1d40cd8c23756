"""A gather or scatter for whose root several ranks take themselves: each of them waits for the others, who have turned to one alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...language import text
from ...model import Collective, Finding, rank_subjects
from ...words.ranks import ranks_words
from .joined import Joined, Wait
from .words import call_words, capital, group_words, places

__all__ = ["SeveralRoots", "finding", "several"]


@dataclass(frozen=True)
class SeveralRoots:
    """Of call number ``sequence`` of `group`: the ranks that take themselves for its root, and the ``usual`` one, that of the last such
    call before, None where the record has none.
    """

    group: Joined
    sequence: int
    roots: Sequence[int]
    usual: int | None

    @property
    def odd(self) -> Sequence[int]:
        return [rank for rank in self.roots if rank != self.usual] if self.usual in self.roots else self.roots

    def call(self, rank: int) -> Collective:
        return self.group.members[rank].calls[self.sequence][-1]


def several(waits: Iterable[Wait]) -> list[SeveralRoots]:
    """The first of each group in which somebody waits in one."""
    found: dict[int, SeveralRoots] = {}
    for wait in waits:
        one = None if wait.call.p2p or id(wait.group) in found else _several(wait.group, wait.call)
        if one is not None:
            found[id(wait.group)] = one
    return list(found.values())


def _several(group: Joined, call: Collective) -> SeveralRoots | None:
    roots = _roots(group, call.sequence, call.op)
    if len(roots) < 2:
        return None
    earlier = sorted({n for m in group.members.values() for n in m.calls if n < call.sequence}, reverse=True)
    before = (_roots(group, number, call.op) for number in earlier)
    return SeveralRoots(group, call.sequence, roots, next((one[0] for one in before if len(one) == 1), None))


def _roots(group: Joined, sequence: int, op: str) -> list[int]:
    """Only the root gives a gather room for the parts of all, and a scatter these; of the others NCCL's recorder has an empty tensor."""
    issued = {rank: m.calls[sequence][-1] for rank, m in group.members.items() if sequence in m.calls}
    if op not in ("gather", "scatter") or any(call.op != op for call in issued.values()):
        return []
    return sorted(rank for rank, call in issued.items() if _has_all(call, len(group.ranks)))


def _has_all(call: Collective, ranks: int) -> bool:
    own, every = (sum(map(math.prod, sizes)) for sizes in (call.input_sizes, call.output_sizes))
    if call.op == "scatter":
        own, every = every, own
    return 0 < ranks * own <= every


def finding(found: SeveralRoots, where: Mapping[int, str]) -> Finding:
    """`where`: the user's frame of a rank, as far as known."""
    odd, roots = found.odd, ranks_words(found.roots)
    told = found.odd != found.roots
    evidence = [_evidence(found, rank, where) for rank in found.roots]
    if found.usual is not None:
        evidence.append(text("rank {rank} was the root of the one before", rank=found.usual))
    call = call_words(found.call(odd[0]))
    return Finding(
        code="collective_mismatch",
        severity="critical",
        title=text(
            "{odd} took itself for the root of {call} of {group}, as rank {usual} did",
            odd=capital(ranks_words(odd)),
            call=call,
            group=group_words(found.group),
            usual=found.usual,
            odd2=ranks_words(odd),
        )
        if told and len(odd) == 1
        else text(
            "{roots} each took itself for the root of {call} of {group}",
            roots=capital(roots),
            call=call,
            group=group_words(found.group),
            roots2=roots,
        ),
        who=list(rank_subjects(odd)),
        where=found.call(odd[0]).at or where.get(odd[0]),
        evidence=evidence,
        cause=text(
            "Each rank works out by itself who is the root, and they do not come to the same: every root waits for the parts of all, and "
            "the others have given theirs to one of them and gone on."
        ),
        next_steps=[
            text(
                "Let one rank decide who is the root and broadcast it, or take the same rank always (`dst=0`, `src=0`)."
            ),
            text("Look at what the root is worked out from: it must be the same on every rank at that call."),
        ],
        confidence="high" if told else "medium",
    )


def _evidence(found: SeveralRoots, rank: int, where: Mapping[int, str]) -> str:
    call = found.call(rank)
    at = places([place] if (place := call.at or where.get(rank)) is not None else [])
    return text("rank {rank}: {call}, as its root{at}", rank=rank, call=call_words(call), at=at)
