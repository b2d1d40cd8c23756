"""What is usual: how long the same call, or the same ``__init__``, took for others; who waits for whom. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from ...language import text
from ...model import RayWorker
from ...words.durations import time_words
from ..hang.doing import phrase
from .case import RayCase
from .words import names, short

__all__ = ["call_name", "in_words", "init_durations", "longest", "usual", "waiting_for"]

FEW = 20


def call_name(row: RayWorker) -> str:
    """As Ray names its task: ``"Collector.run"``."""
    if row.kind == "task" or not row.class_name or "." in row.method:
        return row.method or row.name
    return f"{row.class_name}.{row.method}"


def usual(case: RayCase, row: RayWorker) -> Sequence[float]:
    """How long finished calls of the method that it runs took; empty where that is not known."""
    return case.calls.get(call_name(row), ())


def longest(durations: Sequence[float]) -> float:
    """The longest; of many without the last twentieth, since one outlier is no habit."""
    ordered = sorted(durations)
    return ordered[-1 - len(ordered) // FEW]


def init_durations(case: RayCase, row: RayWorker) -> list[float]:
    """How long ``__init__`` took for those of its class that are up."""
    found = []
    for actor_id, creation in case.creations.items():
        actor = case.actors.get(actor_id)
        if actor is None or actor.class_name != row.class_name or actor.job_id != row.job_id:
            continue
        began, ended = creation.times.get("RUNNING"), creation.times.get("FINISHED")
        if began is not None and ended is not None and ended >= began:
            found.append(ended - began)
    return found


def waiting_for(case: RayCase, rows: Sequence[RayWorker]) -> list[str]:
    """For the evidence of a finding: who waits meanwhile in `ray.get` or `ray.wait`, and where."""
    blamed = {r.who for r in rows}
    told = []
    for row in case.rows:
        if row.who in blamed or not case.waits_on_ray(row):
            continue
        if row.waits_for and not blamed & set(row.waits_for):
            continue
        if row.kind == "driver" or row.waits_for:
            at = short(case.where(row))
            told.append(text("{who} waits for a result from Ray at {at}", who=row.who, at=at))
    return told[:4]


def in_words(case: RayCase, row: RayWorker) -> str:
    """``Collector[3] sleeps at collector.py:20 run: `time.sleep(1)`; it used 0 % of a CPU in 1.2 s``."""
    seen, at, source = case.doing(row), short(case.where(row)), case.source(row)
    does = phrase(seen) if seen is not None else text("stands")
    quoted = f": `{source}`" if source else ""
    words = text("{names} {does} at {at}{quoted}", names=names([row]), does=does, at=at, quoted=quoted)
    view = case.view(row)
    activity = view.activity if view is not None else None
    if activity is not None:
        used, window = f"{activity.cpu_share:.0%}", time_words(activity.window_s)
        words += text("; its process used {used} of a CPU in {window}", used=used, window=window)
    return words
