"""What tells whether a training is sound: where its time goes, what it collects, what its gradient scalers do, and what it trains with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .base import Maybe, NotAvailable
from .gradients import RankGrads
from .observed import Frame, RankLr, Step

__all__ = ["FullCollections", "Place", "Sampled", "Soundness"]
_NOT_MEASURED = NotAvailable("not measured")


@dataclass(frozen=True)
class Place:
    """A stack that the training thread was seen in, innermost frame first. Seconds of the window; ``idle_s``: those in which it neither
    ran nor waited for a CPU. ``call``: the system call that it sat in, ``""`` where that is not known.
    """

    frames: Sequence[Frame]
    looks: int
    wall_s: float
    idle_s: Maybe[float]
    call: str = ""


@dataclass(frozen=True)
class Sampled:
    """The training thread over a window: `looks` at it, ``wall_s`` long, and the places where it was."""

    looks: int
    wall_s: float
    places: Sequence[Place]


@dataclass(frozen=True)
class FullCollections:
    """Python's garbage collections of all generations within the window; ``places`` where they began, the most frequent first;
    ``asked``: how many of them the program asked for; ``pauses``: when they began (Unix time), and for how long everything stood still.
    """

    count: int
    pause_s: float
    longest_s: float
    places: Sequence[tuple[Sequence[Frame], int]] = ()
    asked: int = 0
    pauses: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True)
class Soundness:
    """One rank over ``window_s``. Counts are of the window; ``steps`` the latest records of optimizer steps, oldest first, of this run
    alone, whose first one since the attach was number ``run_began``.

    ``scales``: of each gradient scaler in use, the factor at the window's two ends, None where it is not known. ``mapped_growth_bytes``:
    what resident pages of mapped files have grown by in the last some hundred steps. ``left_bytes``: what each step leaves behind, by the
    allocators' own books; 0 where nothing grows.
    """

    window_s: float
    steps_in_window: int
    backwards: int
    steps: Sequence[Step] = ()
    run_began: int = 1
    grads: Maybe[RankGrads] = _NOT_MEASURED
    lr: Maybe[RankLr] = _NOT_MEASURED
    sampled: Maybe[Sampled] = _NOT_MEASURED
    collections: Maybe[FullCollections] = _NOT_MEASURED
    scaler_steps: int = 0
    scaler_skipped: int = 0
    skipped_in_a_row: int = 0
    scales: Sequence[tuple[float | None, float | None]] = ()
    losses_of_no_step: Sequence[float] = ()
    """What was last given to backward, oldest first, and no optimizer step has followed yet."""
    mapped_growth_bytes: int = 0
    left_bytes: float = 0.0
