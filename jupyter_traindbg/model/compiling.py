"""What torch.compile does in one rank, and has done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .observed import Frame

__all__ = ["Compilation", "Compilations"]


@dataclass(frozen=True)
class Compilation:
    """One of torch.compile's. ``at``: the function, at its first line; None of the graph of a backward pass. ``number``: of how many of
    that function, from 1 on; ``reason``: why what was compiled before did not fit, in torch's words. ``seconds``: what it took, or so far.
    ``cached``: whether its kernels were found in a cache. ``ago_s``: when it began. ``wraps``: the model, or function, around which torch
    has put the function at `at`; empty where that is the program's own. None: not known.
    """

    at: Frame | None
    seconds: float | None
    number: int | None = None
    reason: str = ""
    cached: bool | None = None
    ago_s: float | None = None
    wraps: str = ""

    def is_of(self, other: Compilation) -> bool:
        """Whether both are of one function, and the same of those that were compiled of it."""
        if self.at is None or other.at is None or self.wraps or other.wraps:
            return False
        here, there = self.at, other.at
        return (here.file, here.line, self.number) == (there.file, there.line, other.number)


@dataclass(frozen=True)
class Compilations:
    """``now``: the one under way in the training thread, where it is one of a function. ``past``: the last ones, the oldest first."""

    now: Compilation | None
    past: Sequence[Compilation] = ()

    def last(self, within_s: float) -> Sequence[Compilation]:
        """Those that began so lately."""
        return [one for one in self.past if one.ago_s is not None and one.ago_s <= within_s]

    @property
    def seconds(self) -> float:
        """All that is known of, the one under way included."""
        return sum(one.seconds or 0.0 for one in (*self.past, *([] if self.now is None else [self.now])))
