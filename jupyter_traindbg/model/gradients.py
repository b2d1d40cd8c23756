"""Gradients as they were read: of each parameter, on each rank, after which step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .base import Maybe, NotAvailable, Result, Silent, StepNumber, step_number
from .finding import Finding

__all__ = ["FirstNonFinite", "GradStat", "Grads", "RankGrads"]
_NOT_MEASURED = NotAvailable("not measured")


@dataclass(frozen=True)
class GradStat:
    """One parameter's gradient. ``shape`` is the global shape; for a DTensor the figures are of the local shard.

    ``norm`` is L2, in float64; ``max_abs`` ignores non-finite elements; ``zeros`` is a share in [0, 1]. Where the gradient does not exist
    they are `NotAvailable`. Parameters whose norm was finite are not scanned element by element unless asked, and then
    ``max_abs`` and ``zeros`` are `NotAvailable`.
    """

    name: str
    shape: Sequence[int]
    dtype: str
    norm: Maybe[float]
    max_abs: Maybe[float]
    zeros: Maybe[float]
    nan_count: int
    inf_count: int
    requires_grad: bool = True


@dataclass(frozen=True)
class FirstNonFinite:
    """The first module, in execution order, whose output was not finite during the armed steps; ``module`` None where none was.

    ``step`` is the step that it was in, counted since the attach, ``optimizer_step`` by the optimizer's own count; ``steps_seen`` how many
    went by while armed.
    """

    module: str | None
    kind: str
    inputs_finite: Maybe[bool]
    weights_finite: Maybe[bool]
    modules_seen: int
    note: str = ""
    step: Maybe[int] = _NOT_MEASURED
    steps_seen: int = 0
    optimizer_step: Maybe[int] = _NOT_MEASURED

    @property
    def number(self) -> StepNumber | None:
        """None where there is none."""
        return step_number(self.step, self.optimizer_step)


@dataclass(frozen=True)
class RankGrads:
    """The gradients of one rank. ``at`` says when they were read: ``"after optimizer step N"`` or why not at a safe point.

    ``passes``: backward passes since the last step, where none came for long and they were read at the end of one: they are what has been
    accumulated so far, before any clipping. ``scale``: what a GradScaler had multiplied them by there; the norms are without it.
    ``after_step``: that step, counted since the attach; ``optimizer_step``: the same by the optimizer's own count. ``cost_s``: how long
    reading them took the training thread.
    """

    rank: int
    pid: int
    at: str
    safe_point: bool
    total_norm: Maybe[float]
    grads: Sequence[GradStat]
    first: FirstNonFinite | None = None
    note: str = ""
    after_step: Maybe[int] = _NOT_MEASURED
    cost_s: Maybe[float] = _NOT_MEASURED
    optimizer_step: Maybe[int] = _NOT_MEASURED
    passes: int | None = None
    scale: float | None = None

    @property
    def number(self) -> StepNumber | None:
        """The step that they were read after; None where they were not."""
        return step_number(self.after_step, self.optimizer_step)


@dataclass(frozen=True)
class Grads(Result):
    """``same_step``: whether all ranks were read after the same optimizer step and can be compared; else why that is not known."""

    _rows = "ranks.grads"
    ranks: Sequence[RankGrads]
    silent: Sequence[Silent] = ()
    verdict: Sequence[Finding] = ()
    same_step: Maybe[bool] = _NOT_MEASURED

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(self.verdict)
