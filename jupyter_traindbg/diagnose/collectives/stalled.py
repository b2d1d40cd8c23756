"""A call that every rank has issued alike and that still does not end: with NCCL the recorder tells on whose GPU it has not begun."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...language import text
from ...model import Finding, rank_subjects
from ...words.ranks import ranks_words
from .joined import Wait, longest_s
from .words import call_words, group_words, since

__all__ = ["findings"]


def findings(waits: Sequence[Wait], where: Mapping[int, str]) -> list[Finding]:
    """Only where some ranks' GPUs have begun a call (torch records that with TORCH_NCCL_ENABLE_TIMING) and others' have not."""
    by_call: dict[tuple[int, int], list[Wait]] = {}
    for wait in waits:
        if not wait.call.p2p:
            by_call.setdefault((id(wait.group), wait.call.sequence), []).append(wait)
    found = []
    for own in by_call.values():
        begun = [w for w in own if w.call.state == "started"]
        queued = [w for w in own if w.call.state == "issued"]
        if begun and queued:
            found.append(_finding(begun, queued, where))
    return found


def _finding(begun: Sequence[Wait], queued: Sequence[Wait], where: Mapping[int, str]) -> Finding:
    call, group = call_words(begun[0].call), group_words(begun[0].group)
    late, early = ranks_words([w.rank for w in queued]), ranks_words([w.rank for w in begun])
    return Finding(
        code="collective_not_issued",
        severity="critical",
        title=text(
            "{upper}{late} queued {call} of {group}, but its GPU has not begun it; {early} wait in it{since}",
            upper=late[:1].upper(),
            late=late[1:],
            call=call,
            group=group,
            early=early,
            since=since(longest_s(begun)),
            late2=late,
        ),
        who=list(rank_subjects([w.rank for w in queued])),
        where=next((at for w in queued if (at := w.call.at or where.get(w.rank)) is not None), None),
        evidence=[
            text("on the GPUs of {early} it has begun", early=early),
            text("on the GPUs of {late} it is still queued", late=late),
        ],
        cause=text(
            "What was queued before it on that GPU has not ended: a long or endless kernel, or a collective "
            "of another group on the same stream."
        ),
        next_steps=[
            text(
                "Look at that GPU (`traindbg gpu`), and run once with CUDA_LAUNCH_BLOCKING=1: the stack then "
                "shows the kernel."
            )
        ],
        confidence="medium",
    )
