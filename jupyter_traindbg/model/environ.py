"""The environment variables of a job, each with what is known about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .base import Result, Silent
from .finding import Finding

__all__ = ["Environ", "EnvironRow", "EnvironValue", "Standing"]

Standing = Literal["harmful", "differs", "does nothing", "dead", "old name", "unused here", "unknown", "real"]
"""Of a variable in this job. ``does nothing``: read by nobody, whatever guides say. ``dead``: its reader has stopped to. ``unused here``:
its reader is not in use. ``differs``: between ranks, where it should not. ``unknown``: not in our table."""


@dataclass(frozen=True)
class EnvironValue:
    """A value, None where the variable is not set, and the ranks that have it. Secrets are hidden already."""

    value: str | None
    ranks: Sequence[int]


@dataclass(frozen=True)
class EnvironRow:
    """One variable. ``reader`` is who reads it; ``source`` is where that was checked."""

    name: str
    values: Sequence[EnvironValue]
    standing: Standing
    reader: str
    meaning: str
    advice: str = ""
    """What to use or to do instead; empty where there is nothing to say."""
    source: str | None = None


@dataclass(frozen=True)
class Environ(Result):
    """All variables of a job that have to do with training, the ones to look at first."""

    _rows = "rows.values.ranks:rank"
    target: str
    ranks: Sequence[int]
    rows: Sequence[EnvironRow]
    verdict: Sequence[Finding] = ()
    silent: Sequence[Silent] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(self.verdict)
