"""What is seen of a log that is still being written: in which stage the job is, for how long, and what whoever writes it does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .base import Maybe, NotAvailable, Result
from .finding import Finding
from .logs import LogEvidence, LogLine

__all__ = ["LogFollow", "LogGrowth", "LogWriter"]

_UNKNOWN = NotAvailable("not known yet")


@dataclass(frozen=True)
class LogWriter:
    """A process that has the log open for writing, or writes to it through a pipe."""

    pid: int
    command: str
    doing: str = ""
    """In words, as ``waits for the collective all_reduce``; empty where it was not looked at."""
    where: str | None = None
    """``"file:line function"`` of the user's code."""
    problem: str = ""
    """Why it could not be looked at."""


@dataclass(frozen=True)
class LogGrowth:
    """What is known of a log at one moment. Times in seconds."""

    evidence: LogEvidence
    silent_s: float
    """Since the last byte was written."""
    arrivals: Sequence[tuple[int, float]] = ()
    """(line number, how long ago it came) of the lines with which a stage began while we were following."""
    gaps_s: Sequence[float] = ()
    """Between the pieces that came while we were following."""
    writers: Sequence[LogWriter] = ()
    closed: bool = False
    """Nobody has it open for writing any more, who had."""


@dataclass(frozen=True)
class LogFollow(Result):
    """A log that is followed, at one moment. `in_stage_s` and the usual durations are of this log alone."""

    _rows = ""
    target: str
    lines_read: int
    silent_s: float
    usual_silence_s: Maybe[float] = _UNKNOWN
    """The longest pause between two lines so far, a single exception aside."""
    stage: str | None = None
    stage_line: LogLine | None = None
    in_stage_s: Maybe[float] = _UNKNOWN
    usual_stage_s: Maybe[float] = _UNKNOWN
    """The median of the earlier times that the job was in this stage."""
    visits: int = 0
    """How often it has entered the stage, this time included."""
    writers: Sequence[LogWriter] = ()
    over: str = ""
    """Why it is followed no longer; empty while it is."""
    verdict: Sequence[Finding] = field(default_factory=tuple)

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(self.verdict)
