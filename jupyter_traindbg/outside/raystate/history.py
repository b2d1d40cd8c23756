"""How long the finished calls of a method took: what is usual, to hold a long one against."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from ...errors import TraindbgError
from . import work
from .addresses import ClusterAddress
from .asking import Questions
from .dashboard import Dashboard

__all__ = ["durations"]

MOST = 200
"""So many calls of each name: enough to know what is usual, and each costs the head about 1 ms."""


def durations(
    address: ClusterAddress, names: Sequence[str], job_id: str | None = None, deadline_s: float = 2.0
) -> Mapping[str, Sequence[float]]:
    """By task name (``"Collector.run"``) the seconds that finished calls ran; without the names of which nothing is known.

    10-50 ms. Raises nothing: without a dashboard, or in time, nothing is known.
    """
    if not names or not address.dashboard:
        return {}
    ask = Questions(Dashboard(address.dashboard, address.token), time.monotonic() + deadline_s)
    of_job = [("job_id", "=", job_id)] if job_id else []
    questions = {n: ask.listing("tasks", [*of_job, ("name", "=", n), ("state", "=", "FINISHED")], MOST) for n in names}
    try:
        answers = ask.together(questions)
    except TraindbgError:
        return {}
    found: dict[str, Sequence[float]] = {}
    for name, answer in answers.items():
        times = [work.task(entry).times for entry in answer or ()]
        took = [t["FINISHED"] - t["RUNNING"] for t in times if "RUNNING" in t and "FINISHED" in t]
        if took:
            found[name] = tuple(took)
    return found
