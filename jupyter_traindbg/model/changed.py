"""What was done to a job: results of actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .base import Maybe, NotAvailable, Result, Silent, StepNumber
from .finding import Finding

__all__ = [
    "Changed",
    "Checkpoint",
    "CheckpointFile",
    "CheckpointPlan",
    "CheckpointRank",
    "Freed",
    "GroupChange",
    "InForce",
    "LogEntry",
    "RankChange",
    "RankFreed",
]


# --- settings of optimizers ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GroupChange:
    """One setting of one param group (``group`` None: of the whole optimizer, as gradient clipping is).

    ``scheduled`` is what the training's own code set, ``before`` what was effective until now, ``after`` what is from the first step under
    the change, as far as that is known beforehand. ``action``: ``"hold 0.001"``, ``"scale 0.1"``, ``"released"``.
    """

    optimizer: int
    optimizer_class: str
    group: int | None
    setting: str
    scheduled: Maybe[float]
    before: Maybe[float]
    after: Maybe[float]
    action: str
    note: str = ""


@dataclass(frozen=True)
class RankChange:
    """The change on one rank. ``after_step`` steps (counted since the attach) were behind it when it was done: step
    ``after_step + 1`` is the first under it, and ``optimizer_step`` is that step by the optimizer's own count.

    ``state``: ``"verified"`` (the first step used what was asked for), ``"differs"`` (it did not), ``"in force"`` (done; what its first
    step used is not known), ``"armed"`` (agreed, and done once the rank comes to step ``after_step``).
    """

    rank: int
    pid: int
    state: Literal["verified", "differs", "in force", "armed"]
    after_step: Maybe[int]
    optimizer_step: Maybe[int]
    groups: Sequence[GroupChange]
    note: str = ""

    @property
    def number(self) -> StepNumber:
        """The first step under the change."""
        since = None if isinstance(self.after_step, NotAvailable) else self.after_step + 1
        return StepNumber(since, None if isinstance(self.optimizer_step, NotAvailable) else self.optimizer_step)


@dataclass(frozen=True)
class Changed(Result):
    """What `%lr 1e-4`, `%weight_decay`, `%clip` and their like show. ``change`` is what was asked for, in words; ``undo`` how to take it
    back.

    ``same_step``: whether it was agreed among several ranks. ``waited_s`` is how long it took to be effective, or was waited for it.
    """

    _rows = "ranks"
    target: str
    change: str
    ranks: Sequence[RankChange]
    same_step: bool
    undo: str
    waited_s: float
    silent: Sequence[Silent] = ()
    verdict: Sequence[Finding] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(self.verdict)


@dataclass(frozen=True)
class InForce:
    """One action that is in force on one param group: what the training's code sets (``scheduled``) and what is used (``effective``).

    ``so_far``: what clipping has done until now, in words.
    """

    optimizer: int
    optimizer_class: str
    group: int | None
    setting: str
    action: str
    scheduled: Maybe[float]
    effective: Maybe[float]
    note: str = ""
    so_far: str = ""


@dataclass(frozen=True)
class LogEntry:
    """One change that was made. ``step`` is the first optimizer step under it, counted since the attach, ``optimizer_step`` the same by the
    optimizer's own count, where that is known; ``time_s`` since the epoch.
    """

    time_s: float
    step: int
    change: str
    groups: Sequence[GroupChange] = ()
    optimizer_step: int | None = None

    @property
    def number(self) -> StepNumber:
        return StepNumber(self.step, self.optimizer_step)


# --- memory --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RankFreed:
    """One rank before and after. ``at`` says where it was done; ``objects`` are those that the garbage collector found, and ``took_s`` is
    how long the training thread stood still for it.

    CUDA figures are of all devices: what tensors hold, and what the caching allocator keeps from the driver. `NotAvailable` without CUDA.
    """

    rank: int
    pid: int
    at: str
    objects: int
    rss_before_bytes: int
    rss_after_bytes: int
    cuda_allocated_before_bytes: Maybe[int]
    cuda_allocated_after_bytes: Maybe[int]
    cuda_reserved_before_bytes: Maybe[int]
    cuda_reserved_after_bytes: Maybe[int]
    took_s: float
    gradients_dropped: bool = False
    note: str = ""


@dataclass(frozen=True)
class Freed(Result):
    """What `%free_memory` shows. ``zero_grad``: whether gradients were to be dropped, too."""

    _rows = "ranks"
    ranks: Sequence[RankFreed]
    zero_grad: bool
    silent: Sequence[Silent] = ()


# --- checkpoint ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CheckpointPlan:
    """What a checkpoint would be, were it taken now. ``bytes`` is its size, ``needed_bytes`` what has to be free for it.

    ``there``: what is at ``directory`` now: ``"nothing"``, ``"checkpoint"`` (of ours, which may be replaced), ``"empty directory"`` or
    ``"something else"``. ``pause_s``: how long the training would stand still, about. ``still``: ranks that make no steps. ``step`` is
    the optimizer's own count, where it keeps one.
    """

    directory: str
    kind: str
    bytes: int
    needed_bytes: int
    free_bytes: Maybe[int]
    there: str
    pause_s: Maybe[float]
    still: Sequence[int]
    step: int | None
    world_size: int
    ranks: Sequence[int]
    missing: Sequence[int]
    note: str = ""


@dataclass(frozen=True)
class CheckpointRank:
    """What one rank put into a checkpoint.

    ``steps`` are its optimizers' own step counts, where they keep one; ``step`` is how many we have seen. ``boundary`` is the moment that
    its random generators and loader positions are from. ``pause_s``: how long its training thread stood still for us.
    """

    rank: int
    pid: int
    step: int
    steps: Maybe[Sequence[int]]
    boundary: Maybe[str]
    pause_s: Maybe[float]
    written_bytes: int

    @property
    def numbers(self) -> tuple[StepNumber, ...]:
        """One for each count that its optimizers keep; the steps that we have seen where they keep none."""
        owns = [None] if isinstance(self.steps, NotAvailable) else dict.fromkeys(self.steps)
        return tuple(StepNumber(self.step, own) for own in owns)


@dataclass(frozen=True)
class CheckpointFile:
    """One file of a checkpoint, and the rank that wrote it; None where that is the checkpoint as a whole."""

    name: str
    bytes: int
    sha256: str
    rank: int | None = None


@dataclass(frozen=True)
class Checkpoint(Result):
    """What `%checkpoint DIR` shows: a checkpoint that is complete and in its place.

    ``taken`` is ``"loop boundary"`` (the job ran on) or ``"hung"``. ``kind`` is ``"replicated"`` (`torch.load`) or ``"sharded"``
    (`torch.distributed.checkpoint.load`). ``exact``: a run resumed from it is bit-identical to this one; ``inexact`` says why it is not.
    """

    _rows = "ranks"
    directory: str
    kind: str
    taken: str
    mixed: bool
    exact: bool
    inexact: Sequence[str]
    world_size: int
    ranks: Sequence[CheckpointRank]
    missing_ranks: Sequence[int]
    contents: Sequence[str]
    files: Sequence[CheckpointFile]
    bytes: int
    duration_s: float
    notes: Sequence[str] = ()
    verdict: tuple[Finding, ...] = ()
    others: Sequence[str] = ()
    """The names of what it holds besides model, optimizer and schedule, as `resume` takes them."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.verdict
