"""What was read of a log: its interesting lines, tracebacks with their chains, series of metrics, stages; and the verdict on it.

A log of gigabytes becomes a `LogEvidence` of a few megabytes at most. Line numbers count from 1 and are those that an editor shows:
the pieces that a progress bar separates by carriage returns share the number of their line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from .base import Result
from .finding import Finding

__all__ = [
    "UNNAMED_SERIES",
    "LogCourse",
    "LogDiagnosis",
    "LogEnd",
    "LogError",
    "LogEvent",
    "LogEvidence",
    "LogFrame",
    "LogLane",
    "LogLine",
    "LogMark",
    "LogSeries",
    "LogSource",
    "LogStage",
]

LogStageName = Literal["data", "init", "rollout", "sync", "train", "eval", "save"]


@dataclass(frozen=True)
class LogSource:
    """One file (or standard input, or a text). `rank` is what its name says: ``attempt_0/3/stderr.log`` is rank 3's."""

    name: str
    rank: int | None
    size_bytes: int
    lines: int
    note: str = ""
    """What was odd in reading it: cut off, not text in places, read in part only."""


@dataclass(frozen=True)
class LogLine:
    """One line without ANSI codes, prefixes and the history of a progress bar; at most 4,000 characters."""

    source: int
    """Its place in `LogEvidence.sources`."""
    number: int
    text: str
    rank: int | None = None
    who: str = ""
    """``"rank 3"``, ``"WorkerDict pid 123 on 10.0.0.2"``; empty where the log does not say."""
    time_s: float | None = None
    """Since the epoch; since midnight, in a log that has only times of day."""
    repeats: int = 1
    """So many lines of its kind (the same known words of the same `who`) does this one stand for: of a long log not all are kept."""
    last_number: int | None = None
    """The last of those comes at this line at the latest."""


@dataclass(frozen=True)
class LogFrame:
    """One frame of a traceback, as it was printed."""

    file: str
    line: int
    function: str
    code: str = ""


@dataclass(frozen=True)
class LogError:
    """An exception that was printed: with its traceback, or as a bare ``XError: ...`` line.

    `inner` is what it was raised from (``cause``) or while handling (``context``), or what Ray prints within a
    ``RayTaskError`` (``remote``). The innermost is the candidate for the root.
    """

    type: str
    message: str
    """At most 8,000 characters, in as many lines as were printed."""
    frames: Sequence[LogFrame]
    """Outermost first, as Python prints them; empty for a bare line."""
    line: LogLine
    """Where the traceback or the bare line starts."""
    last_number: int
    inner: LogError | None = None
    link: Literal["cause", "context", "remote", ""] = ""

    def chain(self) -> Iterator[LogError]:
        """This one and what it was raised from, outermost first."""
        error: LogError | None = self
        while error is not None:
            yield error
            error = error.inner


UNNAMED_SERIES = "tensor"


@dataclass(frozen=True)
class LogSeries:
    """A metric over the log. `points` are (line number, value), at most 2,000: first, last and extremes are always among them."""

    name: str
    """As printed, in lower case: ``"loss"``, ``"actor/grad_norm"``; `UNNAMED_SERIES` of a tensor that is printed alone."""
    rank: int | None
    points: Sequence[tuple[int, float]]
    count: int
    nonfinite: int = 0
    first_nonfinite: LogLine | None = None
    source: int = 0


@dataclass(frozen=True)
class LogStage:
    """The job enters a stage. `name` is one of data, init, rollout, sync, train, eval, save."""

    name: LogStageName
    line: LogLine


@dataclass(frozen=True)
class LogEnd:
    """A process of the job that ended, as its launcher tells it: with an exit code, or by a signal (``"SIGSEGV"``)."""

    line: LogLine
    rank: int | None
    exit_code: int | None
    signal: str
    """Empty where it ended with a code."""
    pid: int = 0
    """0 where it is not named."""
    host: str = ""
    first: bool = False
    """The launcher says that it was the first failure on its host."""
    time: str = ""
    """As torchrun has it, ``"2026-03-04_10:00:01"``: later ones are greater."""

    @property
    def by_itself(self) -> bool:
        """Not in order, and not because it was told to: launchers send SIGTERM to the others after the first failure."""
        return self.exit_code != 0 and self.signal not in ("SIGTERM", "SIGINT")


@dataclass(frozen=True)
class LogEvidence:
    """All that the rules get to see of a log.

    A log of at most 5,000 lines is kept whole. Of a larger one: every line with an anchor (the first 50 and the last 50 per anchor
    and `who`; all are counted), 3 lines before and 6 after each, all lines of tracebacks, and 200 lines at each end of each source.
    """

    sources: Sequence[LogSource]
    lines: Sequence[LogLine] = ()
    """In order within each source."""
    errors: Sequence[LogError] = ()
    series: Sequence[LogSeries] = ()
    stages: Sequence[LogStage] = ()
    tails: Mapping[int, Sequence[LogLine]] = field(default_factory=dict)
    """The last 30 lines of each source."""
    total_bytes: int = 0
    total_lines: int = 0
    dropped: int = 0
    """Interesting lines that were not kept because of the bounds."""
    ends: Sequence[LogEnd] = ()
    """How its processes ended, as launchers say it; the first failure first."""
    launchers: Sequence[str] = ()
    """Who started the job, by the traces it leaves: torchrun, ray, slurm, deepspeed, mpi, notebook."""


@dataclass(frozen=True)
class LogEvent:
    """Something that the verdict rests on."""

    line: LogLine
    words: str


@dataclass(frozen=True)
class LogMark:
    """A line that the verdict rests on, in words, and what it is to it: the cause, another finding, or what only follows from one."""

    line: LogLine
    words: str
    role: Literal["cause", "finding", "consequence"]


@dataclass(frozen=True)
class LogLane:
    """What one writer wrote. `who` is empty where the log does not say. Both sequences go by the buckets of `LogCourse`."""

    who: str
    lines: int
    written: Sequence[int]
    """Lines in each bucket."""
    errors: Sequence[int] = ()
    """The buckets in which exceptions were printed."""
    writers: int = 1
    """More than one in the last lane, where there are too many for a lane each."""


@dataclass(frozen=True)
class LogCourse:
    """Who wrote when, for a picture: a few thousand numbers, whatever the size of the log.

    A place is a line number or, with `by_clock`, seconds as in `LogLine.time_s`. The buckets divide what is from `first` to `last` evenly.
    """

    by_clock: bool
    first: float
    last: float
    lanes: Sequence[LogLane]
    marks: Sequence[tuple[float, int, LogMark]] = ()
    """With their places and lanes, in that order; at most 200."""
    stages: Sequence[tuple[float, LogStageName]] = ()
    """Where each began; at most 200."""
    metric: str = ""
    """The name of a loss, or of what comes next to it; empty where none was printed."""
    points: Sequence[tuple[float, float]] = ()
    """Of that: places and values; at most 400."""
    steps: Sequence[float] = ()
    """The numbers of the steps that these are of; empty where the log tells of none."""
    kept: int = 0
    """So many lines were kept to be counted."""
    whole: bool = True
    """Those are about all that there are."""


@dataclass(frozen=True)
class LogDiagnosis(Result):
    """The verdict on a log. `bytes_read` and `lines_read` are of all its sources together; `taken_s` is reading and judging."""

    _rows = "verdict"
    target: str
    sources: Sequence[LogSource]
    lines_read: int
    bytes_read: int
    ranks: Sequence[int] = ()
    """Those that wrote something, as far as the log names them."""
    verdict: Sequence[Finding] = ()
    timeline: Sequence[LogEvent] = ()
    """In order of time, where the clocks can be compared."""
    stage: str | None = None
    """The last one that the job entered."""
    launchers: Sequence[str] = ()
    errors: int = 0
    """So many exceptions were printed, wrappers and handled ones included."""
    notes: Sequence[str] = ()
    taken_s: float = 0.0
    _course: LogCourse | None = None

    @property
    def course(self) -> LogCourse | None:
        """For its picture; it is no part of `to_dict`."""
        return self._course

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(self.verdict)
