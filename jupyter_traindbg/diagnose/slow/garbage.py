"""Garbage collections: those that the program asks for in its loop, and Python's own, for which all other ranks wait as well."""

from __future__ import annotations

from collections.abc import Sequence

from ...frames.whose import bare, user_frame
from ...language import later, text
from ...model import Finding, Frame, FullCollections, NotAvailable, SlowCause, rank_subjects
from ...words.durations import duration
from ..hang.words import place, short_place
from .case import Case, View, covered
from .words import cause, matters, of_a_step

__all__ = ["EXPLAINS", "TOPIC", "rule", "words"]

TOPIC = later("garbage collection")
EXPLAINS = {"gc_pauses": ("uneven_steps",)}
SHARE, LEAST = 0.03, 2
"""Such a share of the time, and so many, are worth a word."""
ASKED = 0.5
"""From this share on, those that the program asked for are what matters."""
_EMPTIES = "torch/cuda/memory.py"


def rule(case: Case) -> list[SlowCause]:
    """Collections that the program asks for, those that come by themselves, and caches that are emptied in the loop."""
    return [*_asked(case), *_own(case), *_emptied(case)]


def words(case: Case) -> str:
    """How many full ones there were, and what they took."""
    view, most = max(_told(case), key=lambda one: one[1].pause_s, default=(None, None))
    if view is None or most is None:
        return text("not known")
    return text(
        "{count} full ones in {window_s}, {pause_s} in all",
        count=most.count,
        window_s=duration(view.window.window_s),
        pause_s=duration(most.pause_s),
    )


def _told(case: Case) -> list[tuple[View, FullCollections]]:
    return [
        (view, view.window.collections)
        for view in case.stepping
        if not isinstance(view.window.collections, NotAvailable)
    ]


def _pauses_s(view: View, seen: FullCollections) -> float:
    """Of a step."""
    return view.step_s * seen.pause_s / view.window.window_s


def _asked(case: Case) -> list[SlowCause]:
    found = [
        (v, c)
        for v, c in _told(case)
        if c.count >= LEAST and c.asked >= ASKED * c.count and matters(_pauses_s(v, c), v.step_s, SHARE)
    ]
    if not found:
        return []
    view, worst = max(found, key=lambda one: _pauses_s(*one))
    took = _pauses_s(view, worst)
    at = user_frame(worst.places[0][0]) if worst.places else None
    finding = Finding(
        "full_collections",
        "warning",
        text("The program asks for full garbage collections: {share}", share=of_a_step(took, view.step_s)),
        rank_subjects(v.rank for v, _ in found),
        place(at),
        [_evidence(v, c) for v, c in found[:8]],
        text("gc.collect() looks through all objects of the process, and frees no memory that is not held by a cycle."),
        [text("Take it out of the loop{words}, or do it every some hundred steps.", words=_at(at))],
    )
    return [cause(finding, took, view.step_s)]


def _own(case: Case) -> list[SlowCause]:
    """Python's own come at another step on each rank, and every rank waits for those of all."""
    own = [(v, c) for v, c in _told(case) if c.count >= LEAST and c.asked < ASKED * c.count]
    if not own:
        return []
    view, worst = max(own, key=lambda one: _pauses_s(*one))
    took = _of_all_s(case, own) if case.together else _pauses_s(view, worst)
    if not matters(took, case.step_s, SHARE):
        return []
    finding = Finding(
        "gc_pauses",
        "warning",
        text("Python's garbage collector holds the training up: {share}", share=of_a_step(took, case.step_s)),
        rank_subjects(v.rank for v, _ in own),
        None,
        [
            *(_evidence(v, c) for v, c in own[:8]),
            *([text("each rank pauses at a step of its own, and the others wait for it")] if len(own) > 1 else []),
        ],
        text("A full collection looks through all objects of the process: the more it keeps, the longer it takes."),
        [
            text("gc.freeze() after the start takes what stays out of the collector's sight."),
            text("gc.disable(), and gc.collect() every some hundred steps, at the same step on all ranks."),
        ],
    )
    return [cause(finding, took, case.step_s)]


def _of_all_s(case: Case, own: Sequence[tuple[View, FullCollections]]) -> float:
    """How long of a step some rank or other pauses: those that pause at the same time cost no more than one."""
    took = covered((began, began + pause) for _, seen in own for began, pause in seen.pauses)
    window_s = max(view.window.window_s for view, _ in own)
    return case.step_s * min(1.0, took / window_s)


def _emptied(case: Case) -> list[SlowCause]:
    for view in case.stepping:
        slices = [one for one in view.slices if _empties(one.frames) is not None]
        took = view.seconds(slices)
        if slices and matters(took, view.step_s, SHARE):
            at = user_frame(slices[0].frames[_empties(slices[0].frames) or 0 :])
            finding = Finding(
                "empty_cache",
                "warning",
                text("The GPU's memory is given back and fetched again: {share}", share=of_a_step(took, view.step_s)),
                rank_subjects([view.rank]),
                place(at),
                [text("in {n} of {steps} steps", n=view.steps_of(slices), steps=len(view.steps))],
                text("torch.cuda.empty_cache() waits for the GPU, and the next allocations wait for the driver."),
                [text("Take it out of the loop{words}, or do it every some hundred steps.", words=_at(at))],
            )
            return [cause(finding, took, view.step_s)]
    return []


def _empties(frames: Sequence[Frame]) -> int | None:
    """Where on the stack the cache is emptied."""
    emptied = (n for n, f in enumerate(frames) if f.file.endswith(_EMPTIES) and bare(f.function) == "empty_cache")
    return next(emptied, None)


def _at(frame: Frame | None) -> str:
    return "" if frame is None else text(" ({short_place})", short_place=short_place(frame))


def _evidence(view: View, seen: FullCollections) -> str:
    at = user_frame(seen.places[0][0]) if seen.places and seen.asked >= ASKED * seen.count else None
    where = "" if at is None else text(", at {short_place}", short_place=short_place(at))
    return text(
        "rank {rank}: {count} in {steps} steps, {pause_s} each{where}",
        rank=view.rank,
        count=seen.count,
        steps=len(view.steps),
        pause_s=duration(seen.pause_s / seen.count),
        where=where,
    )
