"""Where batches are made, and how much of a CPU that takes: told from looks at the process that makes them. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ...frames.whose import user_frame
from ...model import Frame, NotAvailable
from .case import Slice, View

__all__ = ["CPU_BOUND", "LOADING", "computing", "longest", "made_at"]

CPU_BOUND = 0.5
"""Who uses a CPU for less than this share of its work mostly waits."""
LOADING = "torch/utils/data/"
LEAST_OUTSIDE = 3
"""So often a line must be seen from outside to be told."""


def computing(slices: Sequence[Slice]) -> float:
    """For how much of their time a CPU is used, or waited for.

    By the kernel's counts, where there are any: a look that comes with a wait has what ran before that in its time, too.
    """
    all_s = sum(one.wall_s for one in slices)
    known = [(one.look.idle_s, one) for one in slices]
    idle_s = sum(one.wall_s * one.idle if isinstance(idle, NotAvailable) else idle for idle, one in known)
    return 1 - idle_s / all_s if all_s else 1.0


def made_at(view: View, slices: Sequence[Slice]) -> Frame | None:
    """The user's line at which a training thread makes its batches itself.

    Our looks come when the GIL is let go of: what holds it for long is seen where a sample waits next, behind it. Where most of the time is
    computed py-spy tells, which needs none.
    """
    outside = _spent(view.window.outside).most_common(1)
    if computing(slices) >= CPU_BOUND and outside and outside[0][1] >= LEAST_OUTSIDE:
        return outside[0][0]
    return longest((one.frames, round(one.wall_s * 1e6)) for one in slices)


def longest(stacks: Iterable[tuple[Sequence[Frame], int]]) -> Frame | None:
    """The user's line, called by a DataLoader, that was seen most."""
    return next((frame for frame, _ in _spent(stacks).most_common(1)), None)


def _spent(stacks: Iterable[tuple[Sequence[Frame], int]]) -> Counter[Frame]:
    """How often each of the user's lines was seen, called by a DataLoader."""
    spent: Counter[Frame] = Counter()
    for frames, many in stacks:
        loading = next((i for i, f in enumerate(frames) if LOADING in f.file), 0)
        frame = user_frame(frames[:loading])
        if frame is not None:
            spent[frame] += many
    return spent
