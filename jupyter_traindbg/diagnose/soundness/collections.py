"""Full garbage collections at every step: everything stands still while Python looks through all objects there are."""

from __future__ import annotations

from ...frames.whose import user_frame
from ...language import later, text
from ...model import Finding, FullCollections, NotAvailable, Soundness, rank_subjects
from ..hang.case import Case, Hit, View
from ..hang.words import place, short_place
from .seen import seen, unseen

__all__ = ["CODES", "EXPLAINS", "TOPIC", "VERB", "rule", "words"]

TOPIC = later("garbage collection")
VERB = "slow"
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
        text("A full garbage collection in every step takes {share:.0%} of the time", share=share),
        rank_subjects(v.rank for v, _, _ in found),
        place(at),
        [_evidence(v, s, c) for v, s, c in found[:8]],
        text("gc.collect() looks through all objects of the process, and frees no memory that is not held by a cycle."),
        [
            text(
                "Take it out of the loop{words}, or do it every some hundred steps.",
                words="" if at is None else text(" ({short_place})", short_place=short_place(at)),
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
        "{count} full ones in {window_s:.1f} s, {pause_s:.0f} ms in all",
        count=most.count,
        window_s=sound.window_s,
        pause_s=most.pause_s * 1000,
    )


def _told(sound: Soundness) -> FullCollections | None:
    return None if isinstance(sound.collections, NotAvailable) else sound.collections


def _often(sound: Soundness, seen_: FullCollections) -> bool:
    steps = max(1, sound.steps_in_window)
    return seen_.count >= LEAST and seen_.count / steps >= A_STEP and seen_.pause_s / sound.window_s >= SHARE


def _evidence(view: View, sound: Soundness, seen_: FullCollections) -> str:
    at = user_frame(seen_.places[0][0]) if seen_.places else None
    where = "" if at is None else text(", at {short_place}", short_place=short_place(at))
    return text(
        "rank {rank}: {count} in {steps_in_window} steps, {pause_s:.0f} ms each{where}",
        rank=view.rank,
        count=seen_.count,
        steps_in_window=sound.steps_in_window,
        pause_s=seen_.pause_s / seen_.count * 1000,
        where=where,
    )
