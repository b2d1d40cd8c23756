"""A job that has become slower than its own past: since which step, and which part of a step has grown."""

from __future__ import annotations

from collections.abc import Sequence

from ...language import later, text
from ...model import Finding, SlowCause, Step, rank_subjects
from ...step_numbers import step_words
from ...words.durations import duration
from .case import Case, View, usual
from .words import cause, matters

__all__ = ["EXPLAINS", "TOPIC", "rule", "words"]

TOPIC = later("its own past")
EXPLAINS: dict[str, tuple[str, ...]] = {}
LEAST_PAST, LEAST_NOW = 60, 8
GROWN = 1.3
"""A step that takes so many times as long as it used to."""
OF_PAST = 8
"""What it took at first is the median of such a part of the past."""
PIECES = 24
"""The past is compared in so many pieces of equal length."""
_PARTS = {
    "data_wait_s": later("waiting for data"),
    "forward_s": later("forward"),
    "backward_s": later("backward"),
    "optimizer_s": later("the optimizer's step"),
    "other_s": later("the rest of a step"),
}


def rule(case: Case) -> list[SlowCause]:
    """The rank whose steps have grown by most."""
    found = [view for view in case.stepping if _grown_s(view) is not None]
    if not found:
        return []
    worst = max(found, key=lambda view: _grown_s(view) or 0.0)
    took = _grown_s(worst) or 0.0
    if not matters(took, worst.step_s):
        return []
    since = _since(worst)
    part, then, now = _part(worst)
    finding = Finding(
        "slower_than_before",
        "warning",
        text(
            "Steps take {now}, and took {then} before",
            now=duration(_middle(worst.steps)),
            then=duration(_middle(_earlier(worst))),
        ),
        rank_subjects(view.rank for view in found),
        None,
        [
            *([] if since is None else [text("since {step}", step=step_words(since.number))]),
            text(
                "{part} grew from {then} to {now} of a step",
                part=text(_PARTS[part]),
                then=duration(then),
                now=duration(now),
            ),
            *_memory(worst),
        ],
        text("Something that a step does grows with the steps that have passed, or has changed on this machine since."),
        [
            text(
                "A list that grows, and is gone through at each step, is the usual reason: `%memory` shows what grows."
            ),
            text("`%steps --last 0` shows when it began."),
        ],
        confidence="medium",
    )
    return [cause(finding, took, worst.step_s)]


def words(case: Case) -> str:
    """How long steps took before, where that is known."""
    view = max(case.stepping, key=lambda one: len(one.window.past))
    if len(view.window.past) < LEAST_PAST or not view.steps:
        return text("too few of its steps were seen before")
    return text(
        "steps take {now}, and took {then} before",
        now=duration(_middle(view.steps)),
        then=duration(_middle(_earlier(view))),
    )


def _earlier(view: View) -> Sequence[Step]:
    """The first of what is known of its past: what grows with every step has grown little by then."""
    past = [step for step in view.window.past if step.duration_s is not None]
    return past[: max(LEAST_PAST // 2, len(past) // OF_PAST)]


def _middle(steps: Sequence[Step]) -> float:
    return usual([step.duration_s for step in steps if step.duration_s is not None])


def _grown_s(view: View) -> float | None:
    """By how much its steps have grown; None where they have not, or too few are known."""
    then, now = _middle(_earlier(view)), _middle(view.steps)
    if len(view.window.past) < LEAST_PAST or len(view.steps) < LEAST_NOW or then <= 0 or now < GROWN * then:
        return None
    return now - then


def _since(view: View) -> Step | None:
    """The first step of the piece of the past from which on all were slower than halfway."""
    steps = [s for s in (*view.window.past, *view.steps) if s.duration_s is not None]
    size = max(1, len(steps) // PIECES)
    pieces = [steps[n : n + size] for n in range(0, len(steps), size)]
    half = (_middle(_earlier(view)) + _middle(view.steps)) / 2
    slow = None
    for piece in reversed(pieces):
        if _middle(piece) < half:
            break
        slow = piece[0]
    return slow


def _part(view: View) -> tuple[str, float, float]:
    """The part that has grown most, in seconds of a step, before and now."""
    grown = {}
    for part in _PARTS:
        then = usual([value for step in _earlier(view) if (value := getattr(step, part)) is not None])
        now = usual([value for step in view.steps if (value := getattr(step, part)) is not None])
        grown[part] = (then, now)
    part = max(grown, key=lambda p: grown[p][1] - grown[p][0])
    return part, *grown[part]


def _memory(view: View) -> list[str]:
    first, last = view.window.past[0].rss_bytes, view.steps[-1].rss_bytes
    if last < GROWN * first:
        return []
    return [
        text("its memory grew from {first:.1f} to {last:.1f} GiB meanwhile", first=first / 2**30, last=last / 2**30)
    ]
