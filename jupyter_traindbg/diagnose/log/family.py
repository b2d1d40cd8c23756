"""A failure family as data: what shows it, what refutes it, its causes in the order of probability. Read from knowledge/failures/*.toml."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ...language import either
from .condition import Expression

__all__ = ["Cause", "Family", "Guide", "Over", "Refute", "Role", "Signal", "Source", "Text"]

Over = Literal["", "shown", "said"]
Role = Literal["root", "symptom", "wrapper", "hint"]
Severity = Literal["critical", "warning", "info"]
Confidence = Literal["high", "medium", "low"]


@dataclass(frozen=True)
class Text:
    """The same in both languages."""

    en: str
    zh: str

    @property
    def said(self) -> str:
        """The one that the reader asked for."""
        return either(self.en, self.zh)


@dataclass(frozen=True)
class Signal:
    """What shows a family in a log: a literal (`anchors`) and a `pattern` near it, or a computed `fact`.

    `unless_progress`: it does not count where the run went on after it. `unless_over`: nor where the work was over before it, as a bar
    shows or words say, so that it tells of processes being ended. `blame` is false where whoever writes it is a victim: then no finding
    names them as the one to look at.
    """

    id: str
    anchors: Sequence[str] = ()
    pattern: re.Pattern[str] | None = None
    fact: str = ""
    role: Role = "root"
    weight: float = 0.5
    unless_progress: bool = False
    unless_over: Over = ""
    blame: bool = True
    example: str = ""


@dataclass(frozen=True)
class Refute(Signal):
    """What makes the signals `of` this family not count; all of them if it names none. Within `near` lines only, if that is given."""

    of: Sequence[str] = ()
    near: int | None = None


@dataclass(frozen=True)
class Cause:
    """Why it happened, told where all of `when` hold."""

    id: str
    when: Sequence[Expression]
    text: Text
    steps: Sequence[Text] = ()
    title: Text | None = None
    confidence: Confidence = "medium"


@dataclass(frozen=True)
class Guide:
    """What one of the usual troubleshooting guides says about it, and how far that holds."""

    guide: str
    entry: str
    truth: Text


@dataclass(frozen=True)
class Source:
    url: str
    about: str


@dataclass(frozen=True)
class Family:
    """One file of knowledge."""

    code: str
    severity: Severity
    title: Text
    about: Text
    explains: Sequence[str]
    signals: Sequence[Signal]
    refutes: Sequence[Refute]
    causes: Sequence[Cause]
    questions: Sequence[Text]
    guides: Sequence[Guide]
    sources: Sequence[Source]
