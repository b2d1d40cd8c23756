"""What the cluster itself reported: workers killed for memory, requests that no node can fulfil."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...model import RayEvent
from ...terminal_codes import plain
from .fields import identity, listed, number, text

__all__ = ["events"]

MOST = 1000
LONGEST_MESSAGE = 2000


def events(answer: Any, job_id: str | None) -> tuple[RayEvent, ...]:
    """From ``/events``: the last ones, oldest first, each message only as it came last. With a job, its own and those of no job.

    ``/api/v0/cluster_events`` is not used: Ray 2.60 fails there as soon as two sources wrote their times in different ways.
    """
    by_job = ((answer or {}).get("data") or {}).get("events") or {}
    if isinstance(by_job, list):  # one job's
        by_job = {job_id or "": by_job}
    wanted = [
        entry
        for job, entries in by_job.items()
        if job_id is None or job in (job_id, "global", "")
        for entry in listed(entries)
    ]
    in_order = sorted((_event(entry) for entry in wanted), key=lambda event: event.at)
    last = {(event.source, event.message): event for event in in_order}  # the autoscaler repeats itself every 35 s
    return tuple(sorted(last.values(), key=lambda event: event.at)[-MOST:])


def _event(entry: Mapping[str, Any]) -> RayEvent:
    custom = entry.get("customFields") or entry.get("custom_fields") or {}
    label = text(entry.get("label"))
    message = plain(text(entry.get("message")))[:LONGEST_MESSAGE]
    return RayEvent(
        at=number(entry.get("timestamp")) or 0.0,
        source=text(entry.get("sourceType") or entry.get("source_type")),
        severity=text(entry.get("severity")),
        message=f"{label}: {message}" if label else message,
        node_id=identity(custom.get("nodeId") or custom.get("node_id")),
    )
