"""What a bundle for a maintainer holds: its files, what could not be had, and what was taken out of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .base import Result
from .finding import Finding

__all__ = ["Report", "ReportFile", "ReportPart", "ReportSecret"]


@dataclass(frozen=True)
class ReportFile:
    """One file of the bundle."""

    name: str
    size_bytes: int
    about: str


@dataclass(frozen=True)
class ReportPart:
    """One thing that was collected. ``missing`` says what of it could not be had, each with its reason; all of it where ``empty``."""

    name: str
    title: str
    summary: str
    missing: Sequence[str] = ()
    empty: bool = False
    taken_s: float = 0.0


@dataclass(frozen=True)
class ReportSecret:
    """A secret that was taken out: its kind and number, as its placeholder says, and the files that it stood in. Never its value."""

    kind: str
    number: int
    where: Sequence[str]
    times: int


@dataclass(frozen=True)
class Report(Result):
    """A bundle that was written to ``path``."""

    _rows = "parts"
    path: str
    size_bytes: int
    target: str
    files: Sequence[ReportFile]
    parts: Sequence[ReportPart]
    redacted: Sequence[ReportSecret] = ()
    verdict: Sequence[Finding] = ()
    taken_s: float = 0.0
    index: str = ""
    """Its start page, unpacked beside it to be looked at, where that was asked for."""
    not_opened: str = ""
    """Why no window shows that page."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(self.verdict)
