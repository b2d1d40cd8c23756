"""What people send of a job that is not at hand: dumps of stacks, logs, flight recorders; and the verdict on all of it together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from .hangs import Diagnosis
from .joining import Joining, Making
from .observed import ProcessStacks

__all__ = ["DumpDiagnosis", "DumpedProcess", "SentFile"]


@dataclass(frozen=True)
class DumpedProcess:
    """One look at one process. ``stacks.rank`` counts only where ``rank`` is told; ``stacks.pid`` is 0 where it is not.

    ``quotes``: the lines of source that the dump has, by ``"file:line"``. ``variables``: the locals of the innermost frame of the user's
    code in the training thread, without secrets.
    """

    stacks: ProcessStacks
    file: str
    tool: str
    rank: int | None = None
    parent_pid: int | None = None
    interpreter: str = ""
    ident: str = ""
    """How the dump tells its training thread from others."""
    hint: int | None = None
    """What may be its rank: its number on its machine, or a local of that name, which may also be that of a matrix."""
    problem: str = ""
    """Why there are no stacks of it, in the words of the tool."""
    quotes: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    joining: Joining | None = None
    making: Making | None = None
    """What its training thread was told on its way into the default process group, or the group that it makes beside that one, where its
    locals were dumped."""


@dataclass(frozen=True)
class SentFile:
    """A file, and what it was taken for; ``words`` is what it told, or why it told nothing."""

    name: str
    kind: Literal["stacks", "log", "recorder", "unread"]
    words: str


@dataclass(frozen=True)
class DumpDiagnosis(Diagnosis):
    """The verdict on what was sent. ``state`` is ``"not known"`` where every process was seen once only, whatever was found: nobody can
    say then whether it moves. ``missing``: what a live job would have told, and what it would have been good for. ``variables``: the locals
    that were dumped, by rank.
    """

    _rows = "verdict"
    files: Sequence[SentFile] = ()
    missing: Sequence[str] = ()
    variables: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
