"""How sure a verdict is where each rank was seen once. Pure functions.

Most rules say that something lasts. From one look follows who waits for whom at that moment, and from several dumps not even that it was
the same moment: what they say holds only if the job stands still, which nobody has seen.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

from ...model import Finding
from .case import Case

__all__ = ["weighed"]

Confidence = Literal["high", "medium", "low"]
_LESS: Mapping[Confidence, Confidence] = {"high": "medium", "medium": "low", "low": "low"}
_FOR_GOOD = frozenset({"rank_ended", "thread_deadlock", "collective_shape_mismatch", "collective_order"})
"""What waiting does not change: one look tells it as well as many."""
_OF_RECORDS = frozenset({"collective_mismatch", "collective_not_issued", "unequal_steps"})
"""The same, where the ranks' flight recorders tell it, which number the calls."""


def weighed(case: Case, findings: Sequence[Finding]) -> list[Finding]:
    """The findings, less sure where they rest on motion that could not be seen."""
    if not case.seen_once:
        return list(findings)
    recorded = any(view.collectives is not None for view in case.views)
    sure = _FOR_GOOD | (_OF_RECORDS if recorded else frozenset())
    return [f if f.code in sure else dataclasses.replace(f, confidence=_LESS[f.confidence]) for f in findings]
