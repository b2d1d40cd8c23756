"""Where some ranks have gone past a line at which others wait: what in the source leads past it, the exception that one handles, and what
of a replicated model is not reduced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .observed import Frame
from .variables import Variable

__all__ = ["Detour", "DetourKind", "Handled", "Past", "Replica"]

DetourKind = Literal["condition", "exception", "loop", "unsynchronised"]


@dataclass(frozen=True)
class Detour:
    """One way past a line. ``at`` is where it leaves the way that leads there, ``words`` what is written there.

    ``condition``: the test of an ``if``, with `holds` what it comes to for those who go past. ``exception``: what a handler catches;
    empty of a ``finally``. ``loop``: the head of a loop that has ended or never began. ``unsynchronised``: the line is run all the same,
    within a context in which gradients are not reduced (``no_sync``). ``taken``: whether the ranks are known to have gone that way, as
    they stand within it, or by the variables of the condition, which ``values`` has as far as they are known.
    """

    kind: DetourKind
    at: Frame
    words: str
    holds: bool = False
    taken: bool = False
    values: Sequence[Variable] = ()


@dataclass(frozen=True)
class Past:
    """What the source says of ``ranks`` that stand at another line of a function than ``others``, who are at ``line`` of it, or in what
    that calls. ``behind``: whoever is where `ranks` are has been at that line in the same pass, or has gone one of `detours`. False, too,
    where they may be in the next round of a loop.
    """

    ranks: Sequence[int]
    others: Sequence[int]
    now: Frame
    """Where `ranks` are in that function."""
    line: Frame
    behind: bool
    detours: Sequence[Detour]
    skips: Sequence[Detour] = ()
    """Ways to the next round of a loop that both lines are in: who has gone one of these is a round ahead."""


@dataclass(frozen=True)
class Handled:
    """An exception in whose handler a thread is. ``words``: what it says, as far as that is plain and no secret."""

    type: str
    words: str
    raised_at: Frame | None


@dataclass(frozen=True)
class Replica:
    """A model in DistributedDataParallel, as one rank has it. ``parameters`` counts those that get gradients; ``without`` are the names
    of those that have none just now, and ``left_out`` of those that its optimizer has stepped less often than the others.
    ``synchronises``: False within ``no_sync()``; ``finds_unused``: ``find_unused_parameters``.
    """

    name: str
    parameters: int
    without: Sequence[str] = ()
    left_out: Sequence[str] = ()
    synchronises: bool = True
    finds_unused: bool = False
