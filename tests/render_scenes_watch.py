"""Frames of the live view, and what an export wrote, made by hand."""

from __future__ import annotations

import math

from jupyter_traindbg.model import Exported, Watched, WatchedEvent, WatchedRank, WatchedSeries

NAMES = (
    ("loss", "loss", ""),
    ("lr", "learning rate, scheduled", ""),
    ("lr_effective", "learning rate, effective", ""),
    ("grad_norm", "gradient norm", ""),
    ("step_s", "step", "s"),
    ("data_wait_s", "data wait", "s"),
    ("forward_s", "forward", "s"),
    ("backward_s", "backward", "s"),
    ("optimizer_s", "optimizer", "s"),
    ("other_s", "other", "s"),
    ("rss_bytes", "resident", "B"),
    ("gpu_utilisation", "GPU utilisation", "%"),
)


def watched(ranks: int, *, odd: int | None = None, view: str = "curves", ahead: int | None = None) -> Watched:
    """A job that trains; rank `odd` is behind, and its loss is NaN. Its optimizer's own count is `ahead` of ours by so many."""
    series = [
        WatchedSeries(name, label, unit, 0.1, 0.2, 0.3, tuple(1.0 / (i + 1) for i in range(60)))
        for name, label, unit in NAMES
    ]
    return Watched(
        "torchrun:4711",
        "training" if odd is None else "lost",
        "training" if odd is None else f"lost rank {odd}: the others make no steps",
        () if odd is None else ("process 4712 has ended",),
        1200,
        9.5,
        tuple(series),
        tuple(
            WatchedRank(
                rank,
                f"rank {rank}",
                1200 if rank != odd else 900,
                0.2,
                0.5 if rank != odd else math.nan,
                0.1 + rank * 1e-4,
                0.01,
                3e9,
                "" if rank != odd else "process 4712 has ended",
            )
            for rank in range(ranks)
        ),
        (
            WatchedEvent("lr", 400, 1.7e9, "learning rate pinned at 0.0001", _own(400, ahead)),
            WatchedEvent("checkpoint", 800, 1.7e9 + 60, "checkpoint saved: /tmp/ck", _own(800, ahead)),
        ),
        view,
    )


def _own(step: int, ahead: int | None) -> int | None:
    return None if ahead is None else step + ahead


def little() -> Watched:
    """Before the first step."""
    return Watched("4711", "waiting", "waiting for a step, for 3.0 s", (), 0, None, (), ())


def exported(ranks: int) -> Exported:
    return Exported(
        "/tmp/run.parquet", "parquet", 123_456, ranks, 1, 20_000, 20_000 * ranks, 10 * ranks, "rows are means"
    )
