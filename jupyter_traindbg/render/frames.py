"""How a stack is told: the user's frames one by one, runs of library frames in one line."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from ..model import Frame
from .units import plural

__all__ = ["Run", "own", "place", "runs", "short_path"]

_INSTALLED = re.compile(r"^.*/(?:(?:site|dist)-packages|lib(?:64)?/python\d+\.\d+t?)/")


@dataclass(frozen=True)
class Run:
    """Neighbouring frames that are shown one by one, or `folded` into one line."""

    folded: bool
    frames: tuple[Frame, ...]
    noun: tuple[str, str] = ("library frame", "library frames")

    @property
    def summary(self) -> str:
        """``7 library frames, innermost threading.py:359 wait``."""
        return f"{plural(len(self.frames), *self.noun)}, innermost {place(self.frames[0])}"


INHERITED = ("frame that its parent had at the fork", "frames that its parent had at the fork")


def runs(frames: Sequence[Frame]) -> list[Run]:
    """The frames in runs: the user's, a library's, and in a forked child those of its parent."""
    here = own(frames)
    found = [Run(library, tuple(same)) for library, same in groupby(here, key=lambda f: f.library)]
    inherited = tuple(frames[len(here) :])
    return [*found, Run(True, inherited, INHERITED)] if inherited else found


def own(frames: Sequence[Frame]) -> Sequence[Frame]:
    """Without what a forked process inherited: below its start lie its parent's frames, which say nothing of it."""
    fork = next((i for i, f in enumerate(frames) if f.file.endswith("/multiprocessing/popen_fork.py")), len(frames))
    return frames[:fork]


def short_path(frame: Frame, *, name_only: bool = False) -> str:
    """A library's file from its package on (``torch/nn/modules/module.py``); the user's in full, or by name only."""
    if frame.library:
        return _INSTALLED.sub("", frame.file)
    return os.path.basename(frame.file) or frame.file if name_only else frame.file


def place(frame: Frame) -> str:
    """``train.py:42 train_step``."""
    return f"{short_path(frame, name_only=True)}:{frame.line} {frame.function}"
