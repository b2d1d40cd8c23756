"""Where the steps of a training go: what one window shows of each rank, and what comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from .base import Maybe, NotAvailable, Result, Silent
from .finding import Finding
from .hangs import Activity, RankCollectives
from .observed import Frame, Step
from .soundness import FullCollections

__all__ = [
    "BatchSeen",
    "LoaderSetUp",
    "ProcessLooks",
    "RankWindow",
    "Slow",
    "SlowCause",
    "SlowLine",
    "SlowRank",
    "StepPartName",
    "TimedLook",
    "TrainingHost",
]
_NOT_MEASURED = NotAvailable("not measured")

StepPartName = Literal["data", "forward", "backward", "optimizer", "communication", "rest"]
"""The parts of a step. ``communication``: the training thread waits for other ranks; ``rest``: whatever lies between the others."""


# --- evidence ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TimedLook:
    """One look at the training thread, at ``at_s`` (Unix time, by its host's clock), in stack number ``stack``.

    ``wall_s`` is the time since the look before, ``idle_s`` how much of that the thread used no CPU and waited for none; ``late_s``: how
    long the look had to wait for the GIL. ``call``: the system call that it sat in, ``""`` where that is not known. ``step`` is the last
    step that had ended, ``forward``: whether the forward pass of the next one had begun.
    """

    at_s: float
    stack: int
    wall_s: float
    idle_s: Maybe[float]
    late_s: float
    call: str
    step: int
    forward: bool


@dataclass(frozen=True)
class BatchSeen:
    """A batch that the program took from its DataLoader number ``loader``, for step ``step``: number ``number`` of its pass, from 1 on."""

    loader: int
    step: int
    samples: int | None
    elements: int
    shapes: Sequence[Sequence[int]] = ()
    number: int = 0


@dataclass(frozen=True)
class LoaderSetUp:
    """How a DataLoader is set up; None where that is not known. ``length``: batches in one pass."""

    dataset: str
    num_workers: int
    batch_size: int | None = None
    prefetch_factor: int | None = None
    pin_memory: bool | None = None
    persistent_workers: bool | None = None
    length: int | None = None


@dataclass(frozen=True)
class ProcessLooks:
    """Stacks of the main thread of a process below a rank, each with how often it was seen, ``every_s`` seconds while it lived."""

    pid: int
    looks: int
    stacks: Sequence[tuple[Sequence[Frame], int]]
    every_s: float = 0.0


@dataclass(frozen=True)
class TrainingHost:
    """``threads``: that torch computes with; ``cpus``: that the process may use, by its affinity and its control groups; ``cuda``: whether
    it uses a GPU; ``name``: of the machine; ``throttled_s``: for how long of the window its control group was held back, all CPUs together.
    """

    threads: int | None = None
    cpus: float | None = None
    cuda: bool = False
    name: str = ""
    throttled_s: float = 0.0
    graphs: int = 0
    """That torch.compile has made, and ``new_graphs`` of them within the window."""
    new_graphs: int = 0
    breaks: Sequence[tuple[str, int]] = ()
    """Why torch.compile broke off a graph, and how often, since the program's start."""


@dataclass(frozen=True)
class RankWindow:
    """One rank over ``window_s`` seconds from ``began_s`` (Unix time) on. ``steps``: those that ended meanwhile.

    ``workers``: what py-spy saw of its DataLoader workers; ``outside``: what it saw of the main thread, and how often. ``activity`` and
    ``children``: the kernel's counters, of the rank and below it. ``workers_began``: processes below it that were started within the
    window.
    """

    rank: int
    pid: int
    began_s: float
    window_s: float
    steps: Sequence[Step]
    stacks: Sequence[Sequence[Frame]]
    looks: Sequence[TimedLook]
    collections: Maybe[FullCollections] = _NOT_MEASURED
    batches: Sequence[BatchSeen] = ()
    loaders: Sequence[LoaderSetUp] = ()
    workers: Maybe[Sequence[ProcessLooks]] = _NOT_MEASURED
    outside: Sequence[tuple[Sequence[Frame], int]] = ()
    activity: Maybe[Activity] = _NOT_MEASURED
    children: Sequence[Activity] = ()
    workers_began: int = 0
    collectives: Maybe[RankCollectives] = _NOT_MEASURED
    past: Sequence[Step] = ()
    """Recorded steps from before the window, oldest first."""
    host: TrainingHost = field(default_factory=TrainingHost)
    worker: str = ""
    """What a Ray cluster calls it; empty outside of one."""


# --- the result ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SlowLine:
    """A line of the user's at which the training thread of a rank spends its time, in seconds of a step. ``idle_share``: of these."""

    frame: Frame
    part: StepPartName
    seconds: float
    idle_share: float | None = None


@dataclass(frozen=True)
class SlowRank:
    """Where an average step of a rank goes, in seconds, over ``steps`` steps; the parts sum to ``step_s``, None where no step came.

    ``communication_s``: the training thread waited for other ranks, which is in no other part. None on a GPU, where it waits for none.
    """

    rank: int
    pid: int
    steps: int
    step_s: float | None
    data_s: float | None = None
    forward_s: float | None = None
    backward_s: float | None = None
    optimizer_s: float | None = None
    communication_s: float | None = None
    rest_s: float | None = None
    looks: int = 0
    lines: Sequence[SlowLine] = ()
    """Where most of its time goes, the longest first."""
    worker: str = ""


@dataclass(frozen=True)
class SlowCause:
    """Why the job is slow, and what mending that would save: seconds of a step, and the share of a step."""

    finding: Finding
    saves_s: float
    saves_share: float


@dataclass(frozen=True)
class Slow(Result):
    """What `%slow` shows. ``causes`` come in the order of what mending them would save. ``looked_at``: what each family of causes saw,
    where it found something or not.
    """

    _rows = "ranks"
    ranks: Sequence[SlowRank]
    silent: Sequence[Silent] = ()
    causes: Sequence[SlowCause] = ()
    looked_at: Sequence[str] = ()
    window_s: float = 0.0
    taken_s: float = 0.0

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(cause.finding for cause in self.causes)

    @property
    def stepping(self) -> bool:
        """Whether any rank made a step."""
        return any(rank.step_s is not None for rank in self.ranks)

    @property
    def undecided(self) -> str | None:
        """That no step came, where none did: then nothing tells whether the job is slow."""
        return None if self.stepping else "no step came while it was watched"
