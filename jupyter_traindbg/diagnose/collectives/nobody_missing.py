"""Ranks wait, and no record says for whom: what is known of the call that most of them are in, and what the records do not tell."""

from __future__ import annotations

from collections.abc import Sequence

from ...language import counted, text
from ...model import Finding
from ...words.ranks import ranks_words
from .joined import Wait, longest_s
from .words import call_words, capital, group_words, places, since, sizes_words

__all__ = ["finding"]

MOST_NAMED = 3


def finding(waits: Sequence[Wait]) -> Finding:
    """`waits`: not empty, of records that were written because a job stood still."""
    by_call: dict[tuple[int, int, bool, int | None], list[Wait]] = {}
    for wait in waits:
        peer = wait.call.peer if wait.call.p2p else None
        by_call.setdefault((id(wait.group), wait.call.sequence, wait.call.p2p, peer), []).append(wait)
    calls = sorted(by_call.values(), key=lambda own: (-len(own), -(longest_s(own) or 0.0)))
    first = calls[0]
    unknown, lacking = _who(first, issued=None), _who(first, issued=False)
    return Finding(
        code="hang_unexplained",
        severity="warning",
        title=_title(first, unknown, lacking),
        who=[],
        where=next((w.call.at for w in first if w.call.at is not None), None),
        evidence=[_waiting(own) for own in calls[:MOST_NAMED]],
        cause=_cause(unknown, lacking),
        next_steps=[
            text(
                "If the job still stands, ask it itself: `%diagnose` sees what every rank does now, its GPU and its connections."
            ),
            text(
                "Else start it with NCCL_DEBUG=INFO and TORCH_FR_BUFFER_SIZE=20000, and diagnose its logs: a link that "
                "failed, or a GPU, shows there."
            ),
        ],
        confidence="low",
    )


def _who(waits: Sequence[Wait], *, issued: bool | None) -> list[int]:
    """Members of the call's group that are not in it, by whether they have `issued` it; None: of which nobody can say."""
    group, call = waits[0].group, waits[0].call
    here = {w.rank for w in waits}
    if call.p2p:
        return []
    return [r for r, member in group.members.items() if r not in here and member.has_issued(call.sequence) is issued]


def _title(waits: Sequence[Wait], unknown: Sequence[int], lacking: Sequence[int]) -> str:
    ranks = ranks_words([w.rank for w in waits])
    return counted(
        "{ranks} waits in {call} of {group}{since}{others}",
        "{ranks} wait in {call} of {group}{since}{others}",
        len(waits),
        ranks=capital(ranks),
        ranks2=ranks,
        call=call_words(waits[0].call),
        group=group_words(waits[0].group),
        since=since(longest_s(waits)),
        others=_others(unknown, lacking),
    )


def _others(unknown: Sequence[int], lacking: Sequence[int]) -> str:
    if unknown:
        return text("; whether {unknown} issued it is not on record", unknown=ranks_words(unknown))
    if lacking:
        return text("; not in it, but waiting elsewhere: {lacking}", lacking=ranks_words(lacking))
    return text(", and nobody is missing in it")


def _waiting(waits: Sequence[Wait]) -> str:
    sizes = sizes_words(waits[0].call)
    return counted(
        "{ranks} waits in {call}{sizes} of {group}{at}",
        "{ranks} wait in {call}{sizes} of {group}{at}",
        len(waits),
        ranks=ranks_words([w.rank for w in waits]),
        call=call_words(waits[0].call),
        sizes=f" ({sizes})" if sizes else "",
        group=group_words(waits[0].group),
        at=places(w.call.at for w in waits if w.call.at is not None),
    )


def _cause(unknown: Sequence[int], lacking: Sequence[int]) -> str:
    if unknown or lacking:
        return text(
            "The call that holds the others up is on no record: too few calls were recorded, or the dump left them out."
        )
    return text(
        "All who belong to the call have issued it, so what carries it out stands still: a link between two of them, a GPU, or calls of "
        "two groups that their GPUs run in different order."
    )
