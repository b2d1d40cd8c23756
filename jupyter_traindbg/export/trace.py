"""The steps as a Chrome trace (Trace Event Format, JSON object): a process per rank, to be opened in Perfetto or chrome://tracing."""

from __future__ import annotations

import gzip
import io
import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..live import Feed
from ..model import Exported
from ..step_parts import PARTS
from . import table

__all__ = ["write_trace"]

STEPS_THREAD = 1
COUNTERS = (
    ("loss", ("loss",)),
    ("gradient norm", ("grad_norm",)),
    ("learning rate", ("lr", "lr_effective")),
    ("memory", ("rss_bytes", "cuda_allocated_bytes", "cuda_reserved_bytes")),
    ("GPU utilisation", ("gpu_utilisation",)),
)
MOST_EVENTS = 1_000_000
"""More than that no viewer opens: then the latest steps are written. About 150 MB."""
EVENTS_PER_STEP = 9
HEAD = (
    "parts of a step lie end to end in the order of a training loop: their lengths were measured, their order was not"
)


def write_trace(feed: Feed, path: str, *, zipped: bool = False) -> Exported:
    """Slices of steps and their parts, counters for loss, norm, learning rate and memory, marks for what happened.

    Times are microseconds since the first step that is in it; ``otherData.begin_s`` has that in seconds since the epoch. Steps of which
    only means are left have no slices.
    """
    most = max(1, MOST_EVENTS // (EVENTS_PER_STEP * max(1, len(feed.ranks))))
    begin_s, first, last, rows, cut = _extent(feed, most)
    about = {"target": feed.job.name, "begin_s": begin_s, "note": HEAD}
    out = gzip.open(path, "wt", encoding="utf-8") if zipped else io.open(path, "w", encoding="utf-8")  # noqa: SIM115, UP020
    with out:
        out.write(
            f'{{"displayTimeUnit": "ms", "otherData": {json.dumps(about, ensure_ascii=False)}, "traceEvents": [\n'
        )
        for i, event in enumerate(_events(feed, begin_s, most)):
            out.write((",\n" if i else "") + json.dumps(event, ensure_ascii=False, allow_nan=False))
        out.write("\n]}\n")
    note = f"only the latest {most} steps of each rank: more would be too much for a viewer" if cut else ""
    return Exported(path, "trace", 0, len(feed.ranks), first, last, rows, 0, note)


def _extent(feed: Feed, most: int) -> tuple[float, int, int, int, bool]:
    """When the first step begins, the first and last step, how many there are, and whether some are left out."""
    begin_s, first, last, rows, cut = math.inf, feed.last_step, 0, 0, False
    for part in _single(feed, most):
        began = part.time_s - np.nan_to_num(part.values.get("step_s", np.zeros(len(part.step))))
        begin_s = min([begin_s, *began[:1]])
        first, last = min([first, *map(int, part.step[:1])]), max([last, *map(int, part.step[-1:])])
        rows += len(part.step)
        cut = cut or bool(first > feed.history.earliest)
    return (begin_s if math.isfinite(begin_s) else 0.0), first, last, rows, cut


def _single(feed: Feed, most: int) -> Iterator[table.Columns]:
    """The steps that are there one by one, the latest `most` of each rank."""
    for part in table.by_rank(feed):
        keep = np.flatnonzero(part.count == 1)[-most:]
        values = {name: v[keep] for name, v in part.values.items()}
        missing = {name: m[keep] for name, m in part.missing.items()}
        yield table.Columns(part.rank, part.step[keep], part.count[keep], part.time_s[keep], values, missing)


def _events(feed: Feed, begin_s: float, most: int) -> Iterator[dict[str, Any]]:
    for part in _single(feed, most):
        yield from _names(part.rank, feed.rank_names[part.rank])
        yield from _of_rank(part, begin_s)
    ranks = feed.ranks
    for event in feed.events:
        if event.time_s >= begin_s:
            pid = event.ranks[0] if event.ranks else ranks[0]
            yield {
                "ph": "i",
                "name": event.text,
                "cat": event.kind,
                "ts": _us(event.time_s - begin_s),
                "pid": pid,
                "tid": STEPS_THREAD,
                "s": "g" if len(event.ranks) == len(ranks) else "p",
                "args": {"step": event.step, "ranks": list(event.ranks)},
            }


def _names(rank: int, name: str) -> Iterator[dict[str, Any]]:
    common = {"ph": "M", "pid": rank, "tid": 0}
    yield {**common, "name": "process_name", "args": {"name": name}}
    yield {**common, "name": "process_sort_index", "args": {"sort_index": rank}}
    yield {**common, "tid": STEPS_THREAD, "name": "thread_name", "args": {"name": "steps"}}


def _of_rank(part: table.Columns, begin_s: float) -> Iterator[dict[str, Any]]:
    ended_us = 0.0
    for i, step in enumerate(part.step):
        end = _us(part.time_s[i] - begin_s)
        took = _value(part, "step_s", i)
        if took is not None and end > ended_us:
            start = max(ended_us, end - took * 1e6)  # the wall clock may have been set: slices must never overlap
            yield from _slices(part, i, start, end, int(step))
            ended_us = end
        for name, columns in COUNTERS:
            values = {c: v for c in columns if (v := _value(part, c, i)) is not None}
            if values:
                yield {"ph": "C", "name": name, "ts": end, "pid": part.rank, "tid": 0, "args": values}
        for name in ("loss", "grad_norm"):
            if name in part.values and not part.missing[name][i] and not math.isfinite(part.values[name][i]):
                yield {
                    "ph": "i", "name": f"{name} is not finite", "cat": "nan", "ts": end, "pid": part.rank,
                    "tid": STEPS_THREAD, "s": "t", "args": {"step": int(step)},
                }  # fmt: skip


def _slices(part: table.Columns, i: int, start: float, end: float, step: int) -> Iterator[dict[str, Any]]:
    common = {"ph": "X", "cat": "step", "pid": part.rank, "tid": STEPS_THREAD}
    yield {
        **common,
        "name": f"step {step}",
        "ts": round(start, 3),
        "dur": round(end - start, 3),
        "args": {"step": step},
    }
    at = start
    for of_step in PARTS:
        took = _value(part, of_step.field, i)
        until = min(end, at + (took or 0.0) * 1e6)
        if until > at:
            yield {**common, "name": of_step.name, "cat": "part", "ts": round(at, 3), "dur": round(until - at, 3)}
            at = until


def _value(part: table.Columns, name: str, i: int) -> float | None:
    """A finite figure, or None."""
    if name not in part.values:
        return None
    value = float(part.values[name][i])
    return value if math.isfinite(value) else None


def _us(seconds: float) -> float:
    return round(float(seconds) * 1e6, 3)
