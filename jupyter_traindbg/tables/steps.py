"""An optimizer step of a rank, as it was recorded since the attach."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any

from ..language import later, text
from ..model import Steps
from .base import NOT_AVAILABLE, Column, Question, Row

COST = later("a few ms of each rank's agent for 1,000 steps, nothing on the training thread")
ASKS = (Question("steps", share="last"),)
COLUMNS = (
    Column("rank", int, later("the rank")),
    Column("pid", int, later("its process")),
    Column("step", int, later("its number, counted since the attach")),
    Column("optimizer_step", int, later("the same by the optimizer's own count")),
    Column("time_s", float, later("when it ended, in seconds since the epoch: `to_timestamp(time_s)`")),
    Column("duration_s", float, later("how long it took; the parts below sum to it")),
    Column("loss", float, later("the loss of all that the step was trained on, before a GradScaler's scaling")),
    Column(
        "loss_kind",
        str,
        later("`whole`; `given`: the mean of several losses as they were given; `evaluated`: of a closure"),
    ),
    Column("loss_last", float, later("of several micro-batches the loss of the last one")),
    Column("micro_batches", int, later("backward passes in it")),
    Column("optimizer", int, later("the number of the optimizer that stepped")),
    Column("lr", float, later("the learning rate that the step used, of the first param group")),
    Column("lr_by_group", list[float], later("the same of each param group")),
    Column("lr_scheduled", float, later("what the schedule had set, where a change of ours was in force")),
    Column("grad_norm", float, later("the L2 norm of the gradients before clipping")),
    Column("clip_norm", float, later("at what it was clipped; NULL where it was not")),
    Column("rss_bytes", int, later("resident memory of the process")),
    Column("cuda_allocated_bytes", int, later("what torch's CUDA allocator has given away")),
    Column("cuda_reserved_bytes", int, later("what it has reserved")),
    Column("cuda_peak_bytes", int, later("the most that was allocated within the step")),
    Column("data_wait_s", float, later("waiting for the next batch")),
    Column("forward_s", float, later("forward; where `forward_seen` is false, all before backward")),
    Column("backward_s", float, later("backward, with the collectives in it")),
    Column("optimizer_s", float, later("in the optimizer's step")),
    Column("other_s", float, later("all else")),
    Column("generation_s", float, later("generating; NULL where there was none")),
    Column("evaluation_s", float, later("evaluating; NULL where there was none")),
    Column("saving_s", float, later("saving a checkpoint; NULL where there was none")),
    Column("forward_seen", bool, later("whether the beginning of forward was seen")),
)
_OF_STEP = tuple(c.name for c in COLUMNS if c.name not in ("rank", "pid", "lr", "lr_by_group", "lr_scheduled"))
_READ = attrgetter(*_OF_STEP)
_WHY = {
    later("nobody saw its beginning"): (
        "duration_s",
        "data_wait_s",
        "forward_s",
        "backward_s",
        "optimizer_s",
        "other_s",
    ),
    later("the optimizer keeps no count"): ("optimizer_step",),
    later("none was seen to reach backward(), or it has not arrived from the GPU yet"): ("loss",),
    later("norms are sampled where the training does not clip"): ("grad_norm",),
    later("the process uses no CUDA device"): ("cuda_allocated_bytes", "cuda_reserved_bytes", "cuda_peak_bytes"),
}
"""Why a measurement is missing. Of the others NULL says that there was no such thing."""


def rows(steps: Steps) -> Iterator[Row]:
    reasons: dict[tuple[bool, ...], str | None] = {}
    for rank in steps.ranks:
        for step in rank.steps:
            values = _READ(step)
            missing = tuple(value is None for value in values)
            if missing not in reasons:
                reasons[missing] = _reasons(values)
            row: dict[str, Any] = dict(zip(_OF_STEP, values, strict=True))  # in place: there may be 100,000 of them
            row["rank"], row["pid"], row[NOT_AVAILABLE.name] = rank.rank, rank.pid, reasons[missing]
            row["lr"], row["lr_by_group"] = step.lr[0] if step.lr else None, step.lr
            row["lr_scheduled"] = step.lr_scheduled[0] if step.lr_scheduled else None
            yield row


def _reasons(values: Sequence[Any]) -> str | None:
    """The most steps of a job miss the same: it is put into words once."""
    missing = {name for name, value in zip(_OF_STEP, values, strict=True) if value is None}
    told = {why: [name for name in names if name in missing] for why, names in _WHY.items()}
    return "; ".join(f"{', '.join(names)}: {text(why)}" for why, names in told.items() if names) or None
