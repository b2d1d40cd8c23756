"""What a running job is asked again and again for: the steps that are new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .base import Result
from .finding import Finding
from .observed import Setting

__all__ = ["Doing", "DoingKind", "Exported", "NewSteps", "Watched", "WatchedEvent", "WatchedRank", "WatchedSeries"]

DoingKind = Setting | Literal["settings", "checkpoint"]
"""The setting of an optimizer that was changed, ``"settings"`` where it was several or is not known; or a checkpoint was saved."""


@dataclass(frozen=True)
class Doing:
    """Something that was done to a job through us. ``step`` is the first one under a change, or the last one before a checkpoint, counted
    since the attach; ``time_s`` since the epoch.
    """

    kind: DoingKind
    time_s: float
    step: int
    words: str


@dataclass(frozen=True)
class NewSteps:
    """What one rank answered. ``records`` are plain lists in the order of ``fields`` (those of `Step`), oldest first; ``last_step`` is how
    many steps its agent has counted. ``between_cells``: it trains in a kernel's cells, and none of them runs.

    ``backwards``: backward passes since the last step.

    ``problem`` says why there is no answer; ``gone``: because the process has ended. ``told_s``: when it answered, by its host's clock.
    """

    rank: int
    pid: int
    fields: Sequence[str] = ()
    records: Sequence[Sequence[Any]] = ()
    last_step: int = 0
    problem: str = ""
    gone: bool = False
    doings: Sequence[Doing] = ()
    between_cells: bool = False
    told_s: float | None = None
    backwards: int = 0


# --- a frame of the live view --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WatchedSeries:
    """One series: the least, the median and the greatest over the ranks of its latest value, and a sketch of it over all steps (of the
    first rank; NaN where a value was not finite). ``unit`` is ``""``, ``"s"``, ``"B"`` or ``"%"``.
    """

    name: str
    label: str
    unit: str
    low: float
    middle: float
    high: float
    sketch: Sequence[float] = ()


@dataclass(frozen=True)
class WatchedRank:
    """One rank: its latest step and figures; None where there is none. ``behind_s``: how long its latest step is ago. ``step`` counts since
    the attach, ``optimizer_step`` is the optimizer's own count; ``told_s``: when it told of it, by its host's clock.
    """

    rank: int
    name: str
    step: int
    behind_s: float | None
    loss: float | None
    step_s: float | None
    data_wait_s: float | None
    rss_bytes: float | None
    problem: str = ""
    optimizer_step: int | None = None
    told_s: float | None = None


@dataclass(frozen=True)
class WatchedEvent:
    """Something that happened. ``time_s``: in seconds since the epoch. ``step`` counts since the attach, ``optimizer_step`` is the
    optimizer's own count. ``ranks``: whom it is about.
    """

    kind: str
    step: int
    time_s: float
    text: str
    optimizer_step: int | None = None
    ranks: Sequence[int] = ()


@dataclass(frozen=True)
class Watched(Result):
    """What `traindbg watch` shows at one moment. ``state`` is a code (``"training"``, ``"stalled"``, ...), ``words`` says it in full.
    ``steps_per_s``: over the latest steps. ``view``: which part of it was asked for. ``step`` counts since the attach, ``optimizer_step``
    is the optimizer's own count of it.
    """

    _rows = "ranks"
    target: str
    state: str
    words: str
    why: Sequence[str]
    step: int
    steps_per_s: float | None
    series: Sequence[WatchedSeries]
    ranks: Sequence[WatchedRank]
    events: Sequence[WatchedEvent] = ()
    view: str = "curves"
    verdict: Sequence[Finding] = ()
    optimizer_step: int | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(self.verdict)


# --- export --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Exported(Result):
    """What `Job.export` wrote. ``thinned_rows`` of the ``rows`` stand for several steps each."""

    _rows = ""
    path: str
    format: Literal["parquet", "trace"]
    bytes: int
    ranks: int
    first_step: int
    last_step: int
    rows: int
    thinned_rows: int = 0
    note: str = ""
