"""How long the ranks that wait for others will go on waiting: until the time-out of the process group that they wait in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...language import text
from ...words.durations import time_words
from ...words.ranks import ranks_words
from .case import Case

__all__ = ["Patience", "patience"]


@dataclass(frozen=True)
class Patience:
    """Of the ``ranks`` that give up first: after ``timeout_s``, of which ``left_s`` are left; below 0 where that is over."""

    ranks: Sequence[int]
    timeout_s: float
    left_s: float

    @property
    def words(self) -> str:
        return text(
            "the wait of {ranks} ends with the time-out of the process group after {timeout}, of which {left} are left",
            ranks=ranks_words(self.ranks),
            timeout=time_words(self.timeout_s),
            left=time_words(max(0.0, self.left_s)),
        )

    @property
    def half_gone(self) -> bool:
        return self.left_s < self.timeout_s / 2


def patience(case: Case) -> Patience | None:
    """None where no recorder tells the time-out of what they wait in, or since when."""
    told = [
        (v.pending.timeout_s - v.waiting_s, v.pending.timeout_s, v.rank)
        for v in case.waiting
        if v.pending is not None and v.pending.timeout_s is not None and v.waiting_s is not None
    ]
    if not told:
        return None
    left_s, timeout_s, _ = min(told)
    return Patience([rank for _, timeout, rank in told if timeout == timeout_s], timeout_s, left_s)
