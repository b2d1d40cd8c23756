"""Sends and receives between two ranks: who waits for whom, up to the rank that never sends, or round in a ring in which nobody does.

NCCL's recorder knows these calls, gloo's does not; the agent reads the peer from the stack of the rank that waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...language import text
from ...model import Finding, rank_subjects
from ...words.ranks import ranks_words
from .case import Case, Hit, View
from .differing import FEWEST_RANKS, Difference, alone, difference_words
from .words import place, short_place

__all__ = ["chain", "peer_of", "rule"]


def rule(case: Case) -> list[Hit]:
    """One finding for each ring, and one for each rank at the end of a chain that has gone on without sending."""
    if not case.overdue:
        return []
    peers = {v.rank: peer for v in case.waiting if (peer := peer_of(v)) is not None}
    rings: dict[frozenset[int], list[int]] = {}
    ends: dict[int, list[int]] = {}
    for rank in sorted(peers):
        path, end = chain(rank, peers)
        if end in path:
            ring = path[path.index(end) :]
            rings.setdefault(frozenset(ring), ring)
        elif (last := case.by_rank.get(end)) is not None and last.role == "waiting" and last.now.kind != "peer":
            ends.setdefault(end, []).append(rank)
    differ = alone(case) if rings else {}
    return [_ring(case, ring, differ) for ring in rings.values()] + [
        _never(case, end, late) for end, late in ends.items()
    ]


def peer_of(view: View) -> int | None:
    """The rank whose send or receive `view` waits for at every look; None where that is not known."""
    found = {d.thread.peer if d.kind == "peer" and d.thread is not None else None for d in view.doings}
    if len(found) == 1 and (peer := found.pop()) is not None:
        return peer
    return view.pending.peer if view.now.kind == "peer" and view.pending is not None and view.pending.p2p else None


def chain(start: int, peers: Mapping[int, int]) -> tuple[list[int], int]:
    """From `start` along the peers: the ranks on the way, and the one at the end, which is on the way itself where it goes round."""
    path, at = [start], peers[start]
    while at in peers and at not in path:
        path.append(at)
        at = peers[at]
    return path, at


def _ring(case: Case, ring: Sequence[int], alone_have: Mapping[int, list[Difference]]) -> Hit:
    views = [case.by_rank[rank] for rank in ring]
    differ = {rank: told for rank, told in alone_have.items() if rank in ring}
    tag = _odd_tag(case, ring)
    odd = tag.rank if tag is not None else next(iter(differ)) if len(differ) == 1 else None
    blamed = case.by_rank[ring[0] if odd is None else odd]
    finding = Finding(
        "collective_order" if odd is None else "collective_mismatch",
        "critical",
        _ring_title(views, odd),
        rank_subjects(ring if odd is None else [odd]),
        place(blamed.now.frame),
        [
            *([] if tag is None else [_tag_words(tag)]),
            *(difference_words(one) for told in differ.values() for one in told),
            *(_waits(case, v) for v in views[:6]),
            *case.others_wait(ring),
        ],
        _ring_cause(views, odd, tag),
        [_ring_step(views, odd, tag, blamed)],
        confidence="high" if odd is None and _alike(views) else "medium",
    )
    return Hit(finding, ring)


def _ring_title(views: Sequence[View], odd: int | None) -> str:
    ring, operations = ranks_words(v.rank for v in views), _operations(views)
    if odd is not None:
        return text(
            "The sends and receives of rank {odd} do not match those of its peers: {ring} wait for each other in {operation}",
            odd=odd,
            ring=ring,
            operation=operations,
        )
    return text(
        "{ring} wait for each other in {operation}, round in a ring: none of them can begin",
        ring=ring.capitalize(),
        operation=operations,
        ring2=ring,
    )


def _operations(views: Sequence[View]) -> str:
    return text(" and ").join(dict.fromkeys(v.now.operation for v in views))


def _alike(views: Sequence[View]) -> bool:
    """Whether all of them send, or all receive."""
    return len({v.now.operation.removeprefix("i") for v in views}) == 1


def _tags(views: Sequence[View]) -> list[int]:
    """Of a send and a receive that face each other: their tags, where these are known and differ."""
    if len(views) != 2 or _alike(views):
        return []
    tags = [v.now.thread.tag for v in views if v.now.thread is not None and v.now.thread.tag is not None]
    return tags if len(set(tags)) == 2 else []


class _Tag(NamedTuple):
    """The one rank that is at a `tag`, where all others are at the `usual` one."""

    rank: int
    tag: int
    usual: int


def _odd_tag(case: Case, ring: Sequence[int]) -> _Tag | None:
    at = {v.rank: v.now.thread.tag for v in case.waiting if peer_of(v) is not None and v.now.thread is not None}
    tags = {rank: tag for rank, tag in at.items() if tag is not None}
    counts = Counter(tags.values()).most_common()
    if len(tags) < FEWEST_RANKS or len(counts) != 2 or counts[1][1] != 1:
        return None
    rank = next(rank for rank, tag in tags.items() if tag == counts[1][0])
    return _Tag(rank, counts[1][0], counts[0][0]) if rank in ring else None


def _tag_words(odd: _Tag) -> str:
    return text(
        "rank {rank} alone is at tag {tag}; the others are at tag {usual}", rank=odd.rank, tag=odd.tag, usual=odd.usual
    )


def _ring_cause(views: Sequence[View], odd: int | None, tag: _Tag | None) -> str:
    if tags := _tags(views):
        return text(
            "What is sent has the tag {one}, and what is received {other}: a message is taken by the receive with its own tag alone, "
            "and the two sides go through their tags in different order.",
            one=tags[views[0].now.operation.endswith("recv")],
            other=tags[views[0].now.operation.endswith("send")],
        )
    if tag is not None:
        return text(
            "A message is taken by the receive with its own tag alone, and the tags of rank {rank} are other ones than those of its peers.",
            rank=tag.rank,
        )
    if odd is not None:
        return text(
            "Each waits for a transfer to which its peer comes only after its own. Rank {odd} alone has a value that has nothing to do "
            "with which rank it is, and is another one than on all others: it may lead to another order, or number, of transfers.",
            odd=odd,
        )
    if _alike(views):
        return text(
            "Each rank does the same half of the exchange first; a blocking receive ends only when its peer "
            "sends, and that comes after the peer's own receive."
        )
    return text(
        "Each waits for a transfer to which its peer comes only after its own: their orders of sends and receives do not fit."
    )


def _ring_step(views: Sequence[View], odd: int | None, tag: _Tag | None, blamed: View) -> str:
    if tag is not None:
        return text(
            "See what rank {rank} computes its tags from at {at}, and what that comes to on the others.",
            rank=tag.rank,
            at=short_place(blamed.now.frame),
        )
    if odd is not None:
        return text(
            "See whether rank {odd} comes to {at} because of that value; if it does, give all ranks the same one (broadcast it).",
            odd=odd,
            at=short_place(blamed.now.frame),
        )
    if _tags(views):
        return text("Send and receive in the same order of tags on both sides.")
    return text(
        "Let half of the ranks send first and the other half receive first, or use batch_isend_irecv, "
        "which starts both at once."
    )


def _never(case: Case, end: int, late: Sequence[int]) -> Hit:
    """The rank at the end of a chain waits somewhere else by now: what its neighbour waits for was left out."""
    blamed = case.by_rank[end]
    direct = [case.by_rank[rank] for rank in late if peer_of(case.by_rank[rank]) == end]
    first = direct[0]
    operation = first.now.operation
    missing = text("sent") if operation in ("recv", "irecv") else text("received")
    finding = Finding(
        "collective_not_issued",
        "critical",
        text(
            "Rank {end} has not {missing} what {rank} waits for in {operation}, and has gone on",
            end=end,
            missing=missing,
            rank=ranks_words(v.rank for v in direct),
            operation=operation,
        ),
        rank_subjects([end]),
        place(blamed.now.frame),
        [*(_waits(case, v) for v in direct[:4]), *case.others_wait([v.rank for v in direct])],
        text(
            "The two ranks do not make the same number of sends and receives: a branch, or a loop of another "
            "length, left one out."
        ),
        [
            text(
                "Compare what rank {end} does before {short_place} with {short_place2} of rank {rank}.",
                end=end,
                short_place=short_place(blamed.now.frame),
                short_place2=short_place(first.now.frame),
                rank=first.rank,
            )
        ],
        confidence="high" if len(case.views) > 2 else "medium",
    )
    return Hit(finding, [end, *late])


def _waits(case: Case, view: View) -> str:
    peer = peer_of(view)
    tag = view.now.thread.tag if view.now.thread is not None else None
    return text(
        "rank {rank} waits for rank {peer} in {operation}{tag} at {at}",
        rank=view.rank,
        peer=peer,
        operation=view.now.operation,
        tag=text(" (tag {tag})", tag=tag) if tag else "",
        at=case.at(view.now),
    )
