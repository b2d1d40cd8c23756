"""What the rules of slowness share: how much is worth a word, how parts of a step and savings are said. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping

from ...language import later, text
from ...model import Finding, SlowCause, StepPartName
from ...words.durations import duration

__all__ = ["LEAST_S", "SHARE", "cause", "matters", "of_a_step", "part_words"]

SHARE, LEAST_S = 0.1, 0.002
"""The least share of a step, and the least seconds of it, that are worth a finding."""
_PARTS: Mapping[StepPartName, str] = {
    "data": later("waiting for data"),
    "forward": later("forward"),
    "backward": later("backward"),
    "optimizer": later("the optimizer's step"),
    "communication": later("waiting for other ranks"),
    "rest": later("the rest of a step"),
}


def part_words(part: StepPartName) -> str:
    """``backward``, ``waiting for data``."""
    return text(_PARTS[part])


def matters(seconds: float, step_s: float, share: float = SHARE) -> bool:
    """Whether so much of a step is worth a finding."""
    return step_s > 0 and seconds >= LEAST_S and seconds / step_s >= share


def of_a_step(seconds: float, step_s: float) -> str:
    """``38 % of a step (20 ms)``."""
    return text("{share:.0%} of a step ({took})", share=seconds / step_s if step_s else 0.0, took=duration(seconds))


def cause(finding: Finding, saves_s: float, step_s: float) -> SlowCause:
    """`finding`, which would save so much of a step."""
    saves_s = max(0.0, min(saves_s, step_s))
    return SlowCause(finding, saves_s, saves_s / step_s if step_s else 0.0)
