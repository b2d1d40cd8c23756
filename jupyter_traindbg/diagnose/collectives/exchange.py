"""A send and its receive that have both come and do not fit: another size or dtype on either side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from ...language import text
from ...model import Collective, Finding, rank_subjects
from ...words.ranks import ranks_words
from .joined import Wait
from .words import call_words, group_words, places, sizes_words

__all__ = ["findings"]


def findings(waits: Iterable[Wait], where: Mapping[int, str]) -> list[Finding]:
    """The first pair of each two ranks that wait in a send and a receive for each other."""
    found = []
    for wait in waits:
        if wait.call.op != "send" or wait.call.peer is None:
            continue
        member = wait.group.members.get(wait.call.peer)
        taken = next(
            (c for c in member.p2p if c.op == "recv" and c.peer == wait.rank and c.state != "completed")
            if member
            else iter(()),
            None,
        )
        if taken is not None and _load(taken) != _load(wait.call):
            found.append(_finding(wait, taken, wait.call.peer, where))
    return found


def _load(call: Collective) -> tuple[tuple[str, ...], int]:
    sizes = call.input_sizes or call.output_sizes
    return tuple(call.dtypes), sum(math.prod(size) for size in sizes)


def _finding(wait: Wait, taken: Collective, receiver: int, where: Mapping[int, str]) -> Finding:
    sent, got = sizes_words(wait.call), sizes_words(taken)
    sender = wait.rank
    at = {
        rank: places([place] if (place := call.at or where.get(rank)) else [])
        for rank, call in ((sender, wait.call), (receiver, taken))
    }
    return Finding(
        code="collective_shape_mismatch",
        severity="critical",
        title=text(
            "Rank {sender} sends {sent} to rank {receiver}, which receives {got}",
            sender=sender,
            sent=sent,
            receiver=receiver,
            got=got,
        ),
        who=list(rank_subjects([sender, receiver])),
        where=wait.call.at or where.get(sender),
        evidence=[
            f"{ranks_words([sender])}: {call_words(wait.call)} ({group_words(wait.group)}) {sent}{at[sender]}",
            f"{ranks_words([receiver])}: {call_words(taken)} ({group_words(wait.group)}) {got}{at[receiver]}",
        ],
        cause=text(
            "Both sides of a transfer have to agree on its size and dtype: the receiver's buffer is made "
            "before it knows what comes."
        ),
        next_steps=[text("Send the shape first where it varies (a last, smaller batch), or pad to a fixed one.")],
        confidence="medium",
    )
