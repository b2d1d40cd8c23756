"""What one rank has recorded: its profile, and what a trace of all ranks is made of."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from ..model import Frame, RankProfile, Step, TimedLook

__all__ = ["RankTrace", "Seen"]


@dataclass(frozen=True)
class RankTrace:
    """What one rank gives to a trace of all. ``packed``: Kineto's own, by zlib; empty where it recorded none. Unix times, by its clock.

    ``pid`` and ``thread``, the one that trains, are by the numbers that the process has for itself: others, in a container.
    """

    pid: int
    thread: int
    packed: bytes
    steps: Sequence[Step]
    looks: Sequence[TimedLook]
    stacks: Sequence[Sequence[Frame]]
    began_s: float
    ended_s: float

    @property
    def written(self) -> bytes:
        """As Kineto wrote it."""
        return zlib.decompress(self.packed) if self.packed else b""


@dataclass(frozen=True)
class Seen:
    """A rank's profile, and what a trace is made of."""

    profile: RankProfile
    trace: RankTrace
