"""What was seen in a job: ranks, stacks, steps, learning rates, memory, GPUs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from .base import Maybe, NotAvailable, Problem, Result, Silent, StepNumber, step_number
from .changed import InForce, LogEntry
from .finding import Finding
from .waits import ThreadState, Wait

__all__ = [
    "Attached",
    "Detached",
    "Device",
    "DeviceProcess",
    "Frame",
    "GpuReport",
    "LearningRates",
    "Meanwhile",
    "OptimizerGroup",
    "OptimizerLr",
    "ProcessStacks",
    "Rank",
    "RankLr",
    "RankSteps",
    "Setting",
    "Stacks",
    "Step",
    "Steps",
    "Thread",
    "Xid",
]
_NOT_MEASURED = NotAvailable("not measured")


# --- ranks -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rank:
    """One attached process. ``rank`` and ``world_size`` are 0 and 1 outside distributed jobs."""

    rank: int
    world_size: int
    pid: int
    way: str
    """How the agent got in: ``"this process"``, ``"kernel"``, ``"injected"``, ``"found running"`` or ``"outside only"``."""
    python: Maybe[str]
    torch: Maybe[str]
    frameworks: Sequence[str] = ()
    agent: bool = True
    note: str = ""
    worker: str = ""
    """What a Ray cluster calls it; empty outside of one."""
    host: str = ""
    """The host that it is on, as it was named; empty for this machine, and for a node of a Ray cluster."""


@dataclass(frozen=True)
class Attached(Result):
    """What `%attach` shows: the target and its ranks."""

    _rows = "ranks"
    target: str
    ranks: Sequence[Rank]
    attach_s: float
    silent: Sequence[Silent] = ()


@dataclass(frozen=True)
class Detached(Result):
    """What `%detach` shows: from how many processes the agent was taken out, and the actions that were in force until then.

    ``note`` says where they did not end at the same step on all ranks.
    """

    _rows = ""
    target: str
    processes: int
    released: Sequence[InForce] = ()
    note: str = ""


# --- stacks --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Frame:
    """One Python frame; ``line`` is the line being executed. ``library``: not the user's code.

    ``cell`` is the number of the notebook's cell that ``file`` stands for, where that is known.
    """

    file: str
    line: int
    function: str
    library: bool = False
    cell: int | None = None


@dataclass(frozen=True)
class Thread:
    """One thread, innermost frame first. ``waiting_for`` says on what it waits, where it does and that is known."""

    name: str
    tid: Maybe[int]
    state: Maybe[ThreadState]
    frames: Sequence[Frame]
    waiting_for: Wait | None = None
    holds_gil: Maybe[bool] = _NOT_MEASURED
    training: bool = False
    peer: int | None = None
    """The rank that it sends to or receives from just now, where the agent could read it."""
    tag: int | None = None
    """Of that send or receive, where it could be read."""


@dataclass(frozen=True)
class ProcessStacks:
    """All Python threads of one process, the training thread first.

    ``source`` is ``"agent"`` (from inside) or ``"py-spy"`` (from outside); ``role`` is ``"rank"``, ``"DataLoader worker"`` or
    ``"child"``; ``rank`` is the rank the process belongs to, ``worker`` what a Ray cluster calls it (``driver``, ``Collector[3]``).
    """

    rank: int
    pid: int
    role: str
    source: str
    threads: Sequence[Thread]
    note: str = ""
    command: str = ""
    worker: str = ""


@dataclass(frozen=True)
class Stacks(Result):
    _rows = "processes.threads.frames:depth"
    processes: Sequence[ProcessStacks]
    silent: Sequence[Silent] = ()
    taken_s: float = 0.0


# --- steps ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """One optimizer step as recorded by the agent. ``None`` marks what that step did not have.

    ``step`` counts from the attach; ``optimizer_step`` is the optimizer's own count where it keeps one. ``optimizer`` is the number of the
    one that stepped; None in a training that has none of torch's: there each backward pass counts as a step, and ends it.

    ``loss``: see ``loss_kind``; always before a GradScaler's scaling. ``"whole"``: the loss of all that the step was trained on. Of several
    micro-batches it is the mean of their own losses, with the division by their number undone, and ``loss_last`` is that of the last one.
    ``"given"``: the mean of several losses as they were given to ``backward()``, where nothing tells whether they were divided.
    ``"evaluated"``: the first of several evaluations within the step, which is what ``step(closure)`` returns.

    ``grad_norm`` is the L2 norm before clipping: what ``clip_grad_norm_`` returned, else sampled at the optimizer. ``clip_norm``: at
    what it was clipped, None where it was not.

    The ``*_s`` parts sum to ``duration_s``; the first record has none, since nobody saw its step begin, nor has the first one of a
    notebook's cell, where we looked while none ran. ``forward_s`` begins where a module is first called with gradients on; where no call
    was seen (``forward_seen``) it holds all that lies before backward.
    """

    step: int
    time_s: float
    duration_s: float | None
    optimizer: int | None
    optimizer_step: int | None
    loss: float | None
    micro_batches: int
    lr: Sequence[float | None]
    grad_norm: float | None
    rss_bytes: int
    cuda_allocated_bytes: int | None
    cuda_reserved_bytes: int | None
    cuda_peak_bytes: int | None
    data_wait_s: float | None
    forward_s: float | None
    backward_s: float | None
    optimizer_s: float | None
    other_s: float | None
    lr_scheduled: Sequence[float | None] | None = None
    """What the schedule had set, where a change of ours was in force and ``lr``, which is what the step used, differs from it."""
    loss_last: float | None = None
    loss_kind: Literal["whole", "given", "evaluated"] = "whole"
    clip_norm: float | None = None
    forward_seen: bool = True
    generation_s: float | None = None
    evaluation_s: float | None = None
    saving_s: float | None = None

    @property
    def grad_norm_clipped(self) -> float | None:
        """The norm of the gradients that the step used; None where they were not clipped, or it is not known."""
        if self.grad_norm is None or self.clip_norm is None or not self.grad_norm > self.clip_norm:
            return None
        return self.clip_norm if math.isfinite(self.grad_norm) else None

    @property
    def number(self) -> StepNumber:
        return StepNumber(self.step, self.optimizer_step)


@dataclass(frozen=True)
class Meanwhile:
    """What was seen of a training since its last optimizer step, ``for_s`` seconds ago, or since the attach where there was none.

    ``backwards``: backward passes; ``loss``: what the last one was given. ``scaler_steps``: how often a GradScaler was asked for a step
    since the attach, and ``scaler_skipped`` how many of them it skipped. ``optimizers``: the classes of those that exist, where no step was
    seen yet; ``stepping``: the class of the one whose ``step`` is under way, and ``evaluations`` how many backward passes came within it.
    """

    for_s: float
    backwards: int = 0
    loss: float | None = None
    scaler_steps: int = 0
    scaler_skipped: int = 0
    optimizers: Sequence[str] = ()
    stepping: str | None = None
    evaluations: int = 0


@dataclass(frozen=True)
class RankSteps:
    """``told_s``: when it answered, by the clock of its host, in seconds since the epoch. ``run_began``: the number, since the attach, of
    this run's first step; those before it were an earlier one's in the same process, and were left out where it is not 1. ``ended``: how
    the process has ended, where these are the steps that were known of it until then.
    """

    rank: int
    pid: int
    steps: Sequence[Step]
    note: str = ""
    told_s: float | None = None
    run_began: int = 1
    meanwhile: Meanwhile | None = None
    ended: str = ""


@dataclass(frozen=True)
class Steps(Result):
    _rows = "ranks.steps"
    ranks: Sequence[RankSteps]
    silent: Sequence[Silent] = ()


# --- learning rate -------------------------------------------------------------------------------------------------

Setting = Literal["lr", "weight_decay", "clip_norm"]
"""A setting that we can change."""


@dataclass(frozen=True)
class OptimizerGroup:
    """One param group. ``lr`` is what the schedule set, ``effective_lr`` what the next step uses (another one while an action is in force),
    and the same of the weight decay; ``parameters`` and ``elements`` count it.
    """

    index: int
    lr: Maybe[float]
    weight_decay: float | None
    momentum: float | None
    betas: Sequence[float] | None
    parameters: int
    elements: int
    next_lr: Maybe[Sequence[float]]
    effective_lr: Maybe[float] = _NOT_MEASURED
    effective_weight_decay: Maybe[float] = _NOT_MEASURED


@dataclass(frozen=True)
class OptimizerLr:
    """``step`` is its latest step since the attach, ``optimizer_step`` the same by its own count; `NotAvailable` before the first."""

    optimizer: str
    groups: Sequence[OptimizerGroup]
    scheduler: Maybe[str]
    scheduler_step: Maybe[int]
    step: Maybe[int] = _NOT_MEASURED
    optimizer_step: Maybe[int] = _NOT_MEASURED

    @property
    def number(self) -> StepNumber | None:
        """None where neither is known."""
        own = None if isinstance(self.optimizer_step, NotAvailable) else self.optimizer_step
        return step_number(self.step, self.optimizer_step) or (None if own is None else StepNumber(None, own))


@dataclass(frozen=True)
class RankLr:
    """``in_force`` are the actions of ours that are, ``log`` every change that was made since the attach, oldest first."""

    rank: int
    pid: int
    optimizers: Sequence[OptimizerLr]
    note: str = ""
    in_force: Sequence[InForce] = ()
    log: Sequence[LogEntry] = ()


@dataclass(frozen=True)
class LearningRates(Result):
    """``setting`` is the one that was asked about: ``"lr"``, ``"weight_decay"`` or ``"clip_norm"``. ``own_clip_norms``, of the last of
    these: the norms at which the training's own code clips, by its latest steps; none where it was not seen to.
    """

    _rows = "ranks.optimizers.groups"
    ranks: Sequence[RankLr]
    silent: Sequence[Silent] = ()
    setting: Setting = "lr"
    own_clip_norms: Sequence[float] = ()


# --- GPU -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DeviceProcess:
    """A process with memory on a device. ``ours``: the rank it is, where we are attached to it."""

    pid: int
    name: Maybe[str]
    memory_bytes: Maybe[int]
    ours: int | None = None


@dataclass(frozen=True)
class Xid:
    """One error the NVIDIA driver wrote to the kernel log. ``pid`` is the process it blames, where it names one."""

    code: int
    age_s: float
    pid: int | None = None


@dataclass(frozen=True)
class Device:
    """One GPU, or one MIG instance of it. ``index`` is NVML's; ``cuda_index`` the job's, under CUDA_VISIBLE_DEVICES."""

    index: int
    uuid: str
    name: Maybe[str]
    memory_used_bytes: Maybe[int]
    memory_total_bytes: Maybe[int]
    utilization_percent: Maybe[int]
    memory_utilization_percent: Maybe[int]
    power_w: Maybe[float]
    power_limit_w: Maybe[float]
    temperature_c: Maybe[int]
    throttle_reasons: Maybe[Sequence[str]]
    ecc_uncorrected: Maybe[int]
    ecc_corrected: Maybe[int]
    xid_errors: Maybe[int]
    processes: Maybe[Sequence[DeviceProcess]]
    cuda_index: int | None = None
    mig_parent: int | None = None
    """For a MIG instance: NVML's index of the GPU it is a part of; ``index`` is then the instance's own."""
    fault: Literal["lost", "reset required"] | None = None
    """The whole device does not answer; its fields say so one by one."""
    xids: Sequence[Xid] = ()
    """The latest of the ``xid_errors``, newest first."""
    host: str = ""
    """Where the job has several, and each a GPU 0: the host that it is on, as it was named."""


@dataclass(frozen=True)
class GpuReport(Result):
    """What NVML said. ``stuck_pids`` are processes in uninterruptible sleep (state D) when the driver did not answer.

    ``hung_call`` is the NVML call that got no answer; ``notes`` say what the reader must know to read the figures right.
    """

    _rows = "devices"
    devices: Sequence[Device]
    driver: Maybe[str]
    cuda_driver: Maybe[str]
    problem: Problem | None = None
    stuck_pids: Sequence[int] = ()
    taken_s: float = 0.0
    verdict: Sequence[Finding] = field(default_factory=tuple)
    hung_call: str | None = None
    notes: Sequence[str] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(self.verdict)

    @property
    def failure(self) -> Problem | None:
        return self.problem if not self.devices and not self.verdict else None
