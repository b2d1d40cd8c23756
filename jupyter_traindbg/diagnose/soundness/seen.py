"""What the rules of soundness share: the ranks that could be looked at, and how steps, places and rates are told. Pure functions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from ...frames.whose import user_frame
from ...language import text
from ...model import Frame, NotAvailable, Sampled, Soundness, Step
from ...step_numbers import step_words
from ..hang.case import Case, View

__all__ = ["at_step", "figure", "longest_at", "recent", "seen", "unseen"]

RECENT_STEPS = 64
_FOR_OTHERS = ("torch/distributed/", "torch/autograd/")
"""Library code in which a rank may wait for others: collectives, and the backward pass that reduces gradients."""


def seen(case: Case) -> list[tuple[View, Soundness]]:
    """The ranks whose training could be looked at."""
    return [(v, s) for v in case.views if not isinstance(s := v.evidence.soundness, NotAvailable)]


def unseen(case: Case) -> NotAvailable:
    """Why the training of the first rank that could not be looked at could not; where all could, that too few steps came. Of a job that has
    ended only its steps are left.
    """
    if case.over:
        return NotAvailable(text("the job has ended"))
    reasons = [s.reason for v in case.views if isinstance(s := v.evidence.soundness, NotAvailable)]
    came = max((len(s.steps) for _, s in seen(case)), default=0)
    few = text("too few steps came to tell: {came}", came=came)
    no_step = text("no optimizer step came during the look")
    return NotAvailable(reasons[0] if reasons else few if came else no_step)


def recent(steps: Sequence[Step]) -> list[Step]:
    """The latest steps whose durations are known."""
    return [s for s in steps if s.duration_s is not None][-RECENT_STEPS:]


def at_step(step: Step) -> str:
    """``step 812 (12 since the attach)``: the optimizer's own count where it keeps one."""
    return step_words(step.number)


def figure(value: float | None) -> str:
    """Five digits; ``NaN`` and ``Inf`` as everybody writes them."""
    if value is None:
        return "-"
    if math.isnan(value):
        return "NaN"
    return f"{value:.5g}" if math.isfinite(value) else ("Inf" if value > 0 else "-Inf")


def longest_at(sampled: Sampled, least_share: float) -> Frame | None:
    """The user's line at which a thread spent the most time, at least that share of it; without the waits for other ranks in it."""
    spent: Counter[Frame] = Counter()
    for one in sampled.places:
        frame = user_frame(one.frames)
        if frame is not None and not any(part in f.file for f in one.frames for part in _FOR_OTHERS):
            spent[frame] += round(one.wall_s * 1e6)
    frame, microseconds = spent.most_common(1)[0] if spent else (None, 0)
    return frame if microseconds >= least_share * sampled.wall_s * 1e6 else None
