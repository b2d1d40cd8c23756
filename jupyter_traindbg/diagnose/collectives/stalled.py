"""A call that every rank has issued alike and that still does not end: with NCCL the recorder tells on whose GPU it has not begun."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...language import text
from ...model import Finding, rank_subjects
from ...words.durations import time_words
from ...words.ranks import ranks_words
from .joined import Wait
from .words import call_words, group_words

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
    waited = max((w.waited_s for w in begun if w.waited_s is not None), default=None)
    since = "" if waited is None else text(f" for {time_words(waited)}", f"，已 {time_words(waited)}")
    return Finding(
        code="collective_not_issued",
        severity="critical",
        title=text(
            f"{late[:1].upper()}{late[1:]} queued {call} of {group}, but its GPU has not begun it; {early} wait in it{since}",
            f"{late} 已排队{group}的 {call}，但其 GPU 尚未开始执行；{early} 在其中等待{since}",
        ),
        who=list(rank_subjects([w.rank for w in queued])),
        where=next((at for w in queued if (at := w.call.at or where.get(w.rank)) is not None), None),
        evidence=[
            text(f"on the GPUs of {early} it has begun", f"在 {early} 的 GPU 上已开始"),
            text(f"on the GPUs of {late} it is still queued", f"在 {late} 的 GPU 上仍在排队"),
        ],
        cause=text(
            "What was queued before it on that GPU has not ended: a long or endless kernel, or a collective of another group on the same"
            " stream.",
            "该 GPU 上在它之前排队的工作尚未结束：一个很长或不会结束的 kernel，或同一 stream 上另一进程组的集合通信。",
        ),
        next_steps=[
            text(
                "Look at that GPU (`traindbg gpu`), and run once with CUDA_LAUNCH_BLOCKING=1: the stack then shows the kernel.",
                "查看该 GPU（`traindbg gpu`），并用 CUDA_LAUNCH_BLOCKING=1 运行一次：此时堆栈会显示该 kernel。",
            )
        ],
        confidence="medium",
    )
