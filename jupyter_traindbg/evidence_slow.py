"""From what the probe ``slow`` answers (plain data) to `jupyter_traindbg.model.RankWindow`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .evidence_soundness import full_collections
from .frames.whose import frames_of
from .model import BatchSeen, LoaderSetUp, NotAvailable, RankWindow, Step, TimedLook, TrainingHost
from .outside import procfs

__all__ = ["look", "window"]

_UNACCOUNTED = NotAvailable("this kernel keeps no account of it")


def window(rank: int, pid: int, answer: Mapping[str, Any]) -> RankWindow:
    """What the agent alone knows."""
    return RankWindow(
        rank,
        pid,
        answer["began_s"],
        answer["window_s"],
        tuple(Step(**dict(zip(answer["fields"], record, strict=True))) for record in answer["records"]),
        tuple(frames_of(stack) for stack in answer["stacks"]),
        tuple(look(row, answer["began_s"]) for row in answer["looks"]),
        full_collections(answer["collections"]),
        tuple(_batch(raw) for raw in answer["batches"]),
        tuple(_loader(raw) for raw in answer["loaders"]),
        host=_host(answer["host"], answer["compiled"]),
    )


def look(row: Sequence[Any], began_s: float) -> TimedLook:
    """One look as the agent tells it; it began to look at `began_s`."""
    at, stack, wall_s, idle_s, late_s, call, step, forward = row
    return TimedLook(
        began_s + at,
        stack,
        wall_s,
        _UNACCOUNTED if idle_s is None else idle_s,
        late_s,
        "" if call is None else procfs.call_name(call),
        step,
        forward,
    )


def _batch(raw: Mapping[str, Any]) -> BatchSeen:
    shapes = tuple(tuple(shape) for _, shape, _ in raw["tensors"])
    return BatchSeen(raw["loader"], raw["step"], raw["samples"], raw["elements"], shapes, raw["batch"])


def _loader(raw: Mapping[str, Any]) -> LoaderSetUp:
    return LoaderSetUp(
        raw["dataset"],
        raw["num_workers"],
        raw["batch_size"],
        raw["prefetch_factor"],
        raw["pin_memory"],
        raw["persistent_workers"],
        raw["length"],
    )


def _host(raw: Mapping[str, Any], compiled: Mapping[str, Any]) -> TrainingHost:
    return TrainingHost(
        raw["threads"],
        raw["cpus"],
        raw["cuda"],
        raw["name"],
        raw["throttled_s"],
        compiled["graphs"],
        compiled["graphs"] - compiled["before"],
        tuple((why, many) for why, many in compiled["breaks"]),
    )
