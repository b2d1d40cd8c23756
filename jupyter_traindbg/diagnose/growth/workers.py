"""DataLoader workers that grow: each copies what its dataset has, or keeps something itself."""

from __future__ import annotations

from collections.abc import Sequence

from ...frames.whose import full_place
from ...language import counted, text
from ...model import Finding, NotAvailable, RankMemory, WorkerMemory, rank_subjects
from ...words.sizes import size

__all__ = ["findings"]

COPIED_BYTES_PER_S, KEPT_BYTES = 256 * 1024, 4 * 2**20
"""From which growth on a worker copies the large list that its dataset has; and what one without such a list has to have kept while it was
watched: what is new in a process grows a little, too.
"""


def findings(ranks: Sequence[RankMemory]) -> list[Finding]:
    growing = [(r, w) for r in ranks for w in r.workers if _grows(w)]
    if not growing:
        return []
    _, worker = max(growing, key=lambda one: _rate(one[1]))
    many = counted("{n:,} DataLoader worker grows", "{n:,} DataLoader workers grow", len(growing))
    shared = worker.shared[0] if worker.shared else None
    where = shared.where if shared is not None and shared.where is not None else worker.where
    if shared is not None:
        title = text(
            "{many}: each makes its own copy of `{path}`, {objects:,} objects",
            many=many,
            path=shared.path,
            objects=shared.objects,
        )
        cause = text(
            "A worker is forked with its parent's pages. Python counts references within the objects: to read one is to write to its page, "
            "which is copied then. In the end each worker has all of it."
        )
        steps = [
            text(
                "Keep it in one buffer, not in Python objects: a numpy array, a torch tensor, a pyarrow table; texts as bytes with offsets."
            )
        ]
    else:
        title = text("{many} at each batch: by up to {rate} a second", many=many, rate=size(_rate(worker)))
        cause = text("What a dataset keeps in a worker, in a cache or a list, is kept by each worker for itself.")
        steps = [
            text("Look for what {dataset}.__getitem__ adds to and never clears.", dataset=worker.dataset or "Dataset")
        ]
    return [
        Finding(
            code="workers_grow",
            severity="warning",
            title=title,
            who=rank_subjects(r.rank for r, _ in growing),
            where=None if where is None else full_place(where),
            evidence=[_of_worker(r, w) for r, w in growing[:8]],
            cause=cause,
            next_steps=[*steps, text("Fewer workers, or persistent_workers=False, delay it.")],
            confidence="medium",
        )
    ]


def _grows(worker: WorkerMemory) -> bool:
    rate = _rate(worker)
    if worker.shared:
        return rate >= COPIED_BYTES_PER_S
    return worker.evenly and rate * worker.watched_s >= KEPT_BYTES


def _rate(worker: WorkerMemory) -> float:
    rate = worker.growth_bytes_per_s
    return 0.0 if isinstance(rate, NotAvailable) else rate


def _of_worker(rank: RankMemory, worker: WorkerMemory) -> str:
    return text(
        "rank {rank}, worker pid {pid}: {private} for itself, {rate} more a second",
        rank=rank.rank,
        pid=worker.pid,
        private=size(worker.private_bytes),
        rate=size(_rate(worker)),
    )
