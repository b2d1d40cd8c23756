"""How a stack is told: the user's frames one by one, runs of library frames in one line, without those that tell what is going on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from ..frames.phases import telling
from ..frames.whose import own_frames, short_place
from ..language import counted, later_counted
from ..model import Frame

__all__ = ["Run", "runs"]


LIBRARY = later_counted("{n:,} library frame, innermost {place}", "{n:,} library frames, innermost {place}")
INHERITED = later_counted(
    "{n:,} frame that its parent had at the fork, innermost {place}",
    "{n:,} frames that its parent had at the fork, innermost {place}",
)


@dataclass(frozen=True)
class Run:
    """Neighbouring frames that are shown one by one, or `folded` into one line."""

    folded: bool
    frames: tuple[Frame, ...]
    words: tuple[str, str] = LIBRARY

    @property
    def summary(self) -> str:
        """``7 library frames, innermost threading.py:359 wait``."""
        return counted(*self.words, len(self.frames), place=short_place(self.frames[0]))


def runs(frames: Sequence[Frame]) -> list[Run]:
    """The frames in runs: the user's, with the library's that tell a phase (``Trainer.evaluate``) each for itself; a library's; and in a
    forked child those of its parent.
    """
    here = own_frames(frames)
    shown = {id(frame) for frame in telling(here)}
    found = [
        Run(kind == "folded", tuple(same))
        for kind, same in groupby(here, key=lambda f: "telling" if id(f) in shown else "folded" if f.library else "own")
    ]
    inherited = tuple(frames[len(here) :])
    return [*found, Run(True, inherited, INHERITED)] if inherited else found
