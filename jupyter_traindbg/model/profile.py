"""What a profile of a few steps shows of each rank: operators, lines of the program, and what the profiling itself cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from .base import Maybe, NotAvailable, Result, Silent, StepNumber
from .observed import Frame

__all__ = [
    "OperatorKind",
    "Profile",
    "ProfiledLine",
    "ProfiledOperator",
    "RankProfile",
    "RecordedTraces",
    "SampledStack",
]

OperatorKind = Literal["operator", "range", "kernel", "runtime"]
"""An operator of torch, or node of its autograd; a range that the program or a library has named (`torch.profiler.record_function`);
what a GPU does; a call of the GPU's driver or runtime."""


@dataclass(frozen=True)
class ProfiledOperator:
    """One operator, range or kernel. Times are seconds of an average step.

    ``calls``: of a step. ``self_s`` is without what it called itself, and is what sums up over a step; ``total_s`` is with it.
    ``device_s``: what the kernels took that it had launched itself; None where no GPU was profiled. ``training_thread``: whether it ran on
    that, or on others alone (a backward pass on a GPU has its own).
    """

    name: str
    kind: OperatorKind
    calls: float
    self_s: float
    total_s: float
    device_s: float | None = None
    training_thread: bool = True


@dataclass(frozen=True)
class ProfiledLine:
    """A line of the user's, seen at the inner end of a share of all looks at the training thread.

    ``seconds``: of an average step, None where no step came. ``operator``: the innermost one that ran there in most looks, `""` where none
    did, or none was recorded meanwhile; ``operator_share``: in how many of the line's looks at recorded steps.
    """

    frame: Frame
    share: float
    seconds: float | None
    operator: str = ""
    operator_share: float = 0.0


@dataclass(frozen=True)
class SampledStack:
    """A stack of the training thread, innermost frame first, and in which share of the time it was seen."""

    frames: Sequence[Frame]
    share: float


@dataclass(frozen=True)
class RankProfile:
    """One rank. ``steps``: how many were recorded by torch's profiler, from behind ``first_step`` on; 0 where that was not wanted, or not
    to be had, and ``note`` says why.

    ``step_s``: mean of these steps; ``usual_step_s``: median of the steps around them, which nobody recorded. ``stood_still_s``: for how
    long the training thread stood still while the profiler was started, stopped and written down. Of an average recorded step
    ``operators_s`` is for how long the training thread, or one that computes gradients for it, is in an operator; ``collectives_s`` for
    how long none is, and a collective call is under way on a thread of its own (gloo's); ``python_s`` for how long neither;
    ``gpu_busy_s`` for how long the GPU is busy. ``looks`` at the training thread over ``window_s`` seconds gave `lines` and `stacks`. The
    clock of its host is ``clock_ahead_s`` ahead of that of the first rank, give or take ``clock_error_s``.
    """

    rank: int
    pid: int
    steps: int = 0
    first_step: StepNumber | None = None
    step_s: float | None = None
    usual_step_s: float | None = None
    stood_still_s: float = 0.0
    operators_s: float | None = None
    collectives_s: float | None = None
    python_s: float | None = None
    gpu_busy_s: float | None = None
    events: int = 0
    looks: int = 0
    window_s: float = 0.0
    operators: Sequence[ProfiledOperator] = ()
    """Those with the longest ``self_s`` and ``device_s`` first."""
    lines: Sequence[ProfiledLine] = ()
    stacks: Sequence[SampledStack] = ()
    clock_ahead_s: float = 0.0
    clock_error_s: float = 0.0
    note: str = ""
    worker: str = ""
    """What a Ray cluster calls it; empty outside of one."""

    @property
    def overhead(self) -> float | None:
        """How many times longer a recorded step took than a usual one; None where one of the two is not known."""
        return self.step_s / self.usual_step_s if self.step_s and self.usual_step_s else None


class RecordedTraces(Protocol):
    """What the ranks have recorded, kept to be written down."""

    def write(self, path: str) -> str:
        """See `Profile.save_trace`."""


@dataclass(frozen=True)
class Profile(Result):
    """What `%profile` shows. ``trace``: the file that has the Chrome trace of all ranks; None where none was asked for."""

    _rows = "ranks.operators"
    ranks: Sequence[RankProfile]
    silent: Sequence[Silent] = ()
    taken_s: float = 0.0
    trace: Maybe[str] | None = None
    _recorded: RecordedTraces | None = None

    def save_trace(self, path: str) -> str:
        """Write one Chrome trace of all ranks to `path` (``.json``, ``.json.gz``), and return where that is. 50 ms a MB.

        Raises `UsageError` for another ending, or a path that cannot be written, and `NoTarget` where nothing was recorded.
        """
        assert self._recorded is not None
        return self._recorded.write(path)

    @property
    def recorded(self) -> bool:
        """Whether any rank has recorded a step."""
        return any(rank.steps for rank in self.ranks)

    @property
    def undecided(self) -> str | None:
        """That nothing was seen, or no trace was written, where that is so."""
        if not any(rank.steps or rank.looks for rank in self.ranks):
            return "nothing was seen while it was watched"
        return f"no trace was written: {self.trace.reason}" if isinstance(self.trace, NotAvailable) else None
