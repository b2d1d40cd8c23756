"""Which tier the values come from, what is missing, and what brings it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ...model import RayCluster, RayWorkers

__all__ = ["of"]

TIERS = {
    0: "the cluster's own word (tier 0)",
    1: "stacks (tier 1)",
    2: "an agent inside (tier 2)",
}


def of(cluster: RayCluster, workers: RayWorkers, asked: int | None, ways: Sequence[str]) -> tuple[str, ...]:
    """The notes of a look that was to go up to tier `asked` (None: as far as there was something to learn)."""
    return (*cluster.notes, *_sources(cluster, workers), *ways, *_next(workers, asked), *_nobody(cluster, workers))


def _sources(cluster: RayCluster, workers: RayWorkers) -> Iterator[str]:
    count = Counter(row.tier for row in workers.workers)
    if count:
        rows = ", ".join(f"{TIERS[tier]}: {count[tier]:,}" for tier in sorted(count))
        yield f"Rows by the deepest source that they rest on: {rows}; states and counts are the {cluster.source}'s"


def _next(workers: RayWorkers, asked: int | None) -> Iterator[str]:
    if asked == 0:
        yield "With --tier 1: the line that each worker is at, from stacks, read on its node (it needs to read the memory of its processes)"
    elif asked == 1:
        yield "With --tier 2: who holds a lock, whose results are waited for, coroutines and counters, from an agent in each worker"
    elif asked is None and any(row.tier == 1 for row in workers.workers):
        yield "With --tier 2 also those are asked from inside that a stack tells enough of; --progress self.NAME shows a counter"


def _nobody(cluster: RayCluster, workers: RayWorkers) -> Iterator[str]:
    if workers.jobs or not cluster.jobs:
        return
    last = max(cluster.jobs, key=lambda job: job.ended_at if isinstance(job.ended_at, float) else 0.0)
    called = last.submission_id or last.job_id
    yield f"No job runs in this cluster; the last one was {called} ({last.status.lower()}): --job {called} shows what it has left behind"
