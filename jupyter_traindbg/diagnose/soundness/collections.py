"""Full garbage collections at every step: everything stands still while Python looks through all objects there are."""

from __future__ import annotations

from ...frames.whose import user_frame
from ...language import text
from ...model import Finding, FullCollections, NotAvailable, Soundness, rank_subjects
from ..hang.case import Case, Hit, View
from ..hang.words import place, short_place
from .seen import seen, unseen

__all__ = ["CODES", "EXPLAINS", "TOPIC", "VERB", "rule", "words"]

TOPIC = ("garbage collection", "垃圾回收")
VERB = "stacks"
CODES = frozenset({"full_collections"})
EXPLAINS = {"full_collections": ("host_wait",)}

A_STEP, SHARE, LEAST = 0.5, 0.03, 3
"""So many a step, and such a share of the time in all, are worth a word."""


def rule(case: Case) -> list[Hit]:
    """The ranks that collect at every step, or nearly."""
    found = [(v, s, c) for v, s in seen(case) if (c := _told(s)) and _often(s, c)]
    if not found:
        return []
    _, sound, worst = max(found, key=lambda one: one[2].pause_s / one[1].window_s)
    at = user_frame(worst.places[0][0]) if worst.places else None
    share = worst.pause_s / sound.window_s
    finding = Finding(
        "full_collections",
        "warning",
        text(
            f"A full garbage collection in every step takes {share:.0%} of the time",
            f"每一步都执行完整的垃圾回收，占用 {share:.0%} 的时间",
        ),
        rank_subjects(v.rank for v, _, _ in found),
        place(at),
        [_evidence(v, s, c) for v, s, c in found[:8]],
        text(
            "gc.collect() looks through all objects of the process, and frees no memory that is not held by a cycle.",
            "gc.collect() 会遍历进程中的所有对象，且只能释放被循环引用持有的内存。",
        ),
        [
            text(
                f"Take it out of the loop{'' if at is None else f' ({short_place(at)})'}, or do it every some hundred steps.",
                f"把它移出循环{'' if at is None else f'（{short_place(at)}）'}，或每几百步执行一次。",
            )
        ],
    )
    return [Hit(finding, [v.rank for v, _, _ in found])]


def words(case: Case) -> str | NotAvailable:
    """How many there were, and what they took."""
    told = [(s, c) for _, s in seen(case) if (c := _told(s)) is not None]
    if not told:
        return unseen(case)
    sound, most = max(told, key=lambda one: one[1].pause_s)
    return text(
        f"{most.count} full ones in {sound.window_s:.1f} s, {most.pause_s * 1000:.0f} ms in all",
        f"{sound.window_s:.1f} 秒内完整回收 {most.count} 次，共 {most.pause_s * 1000:.0f} 毫秒",
    )


def _told(sound: Soundness) -> FullCollections | None:
    return None if isinstance(sound.collections, NotAvailable) else sound.collections


def _often(sound: Soundness, seen_: FullCollections) -> bool:
    steps = max(1, sound.steps_in_window)
    return seen_.count >= LEAST and seen_.count / steps >= A_STEP and seen_.pause_s / sound.window_s >= SHARE


def _evidence(view: View, sound: Soundness, seen_: FullCollections) -> str:
    at = user_frame(seen_.places[0][0]) if seen_.places else None
    where = "" if at is None else text(f", at {short_place(at)}", f"，位于 {short_place(at)}")
    return text(
        f"rank {view.rank}: {seen_.count} in {sound.steps_in_window} steps, {seen_.pause_s / seen_.count * 1000:.0f} ms each{where}",
        f"rank {view.rank}：{sound.steps_in_window} 步中 {seen_.count} 次，每次 {seen_.pause_s / seen_.count * 1000:.0f} 毫秒{where}",
    )
