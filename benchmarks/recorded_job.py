"""The evidence of a real job that stands still, and the same spread over as many ranks as are wanted: for hangs.py and hosts.py."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from common import REPO

sys.path.insert(0, str(REPO / "tests"))

from hangs import running

from jupyter_traindbg.attach import parsed, resolve
from jupyter_traindbg.gather.whole_job import gather
from jupyter_traindbg.model import JobEvidence, NotAvailable, RankEvidence

READY_S, STANDS_S = 180.0, 3.0


def recorded(name: str, world: int) -> tuple[JobEvidence, float]:
    """The evidence of a real job that has stood still for a while, and how many seconds it took to gather."""
    with tempfile.TemporaryDirectory() as folder, running(name, Path(folder), world=world) as hang:
        hang.wait_for("ready", READY_S)
        time.sleep(STANDS_S)
        began = time.perf_counter()
        found = resolve(parsed(hang.target), 10.0)
        try:
            return gather(hang.target, found, hang.pid), time.perf_counter() - began
        finally:
            for link in found:
                link.leave()


def spread(evidence: JobEvidence, size: int) -> JobEvidence:
    """The same job with `size` ranks: those that there are as they were, and the first, which is no culprit, over and over."""
    everybody = tuple(range(size))
    grown = [_of_size(rank, everybody) for rank in evidence.ranks]
    more = [_renumbered(grown[0], rank) for rank in range(len(grown), size)]
    return replace(evidence, ranks=(*grown, *more), world_size=size)


def _of_size(rank: RankEvidence, everybody: Sequence[int]) -> RankEvidence:
    collectives = rank.collectives
    if not isinstance(collectives, NotAvailable):
        all_of_them = rank.world_size
        groups = tuple(replace(g, ranks=everybody) if len(g.ranks) == all_of_them else g for g in collectives.groups)
        collectives = replace(collectives, groups=groups)
    return replace(rank, world_size=len(everybody), collectives=collectives)


def _renumbered(model: RankEvidence, rank: int) -> RankEvidence:
    pid = 1_000_000 + rank
    looks = tuple(
        replace(
            k, processes=tuple(replace(p, rank=rank, pid=pid if p.pid == model.pid else p.pid) for p in k.processes)
        )
        for k in model.looks
    )
    activity, collectives, environ = model.activity, model.collectives, model.environ
    if not isinstance(activity, NotAvailable):
        activity = replace(activity, pid=pid)
    if not isinstance(collectives, NotAvailable):
        collectives = replace(collectives, rank=rank, pid=pid)
    if not isinstance(environ, NotAvailable):
        environ = {**environ, "RANK": str(rank)}
    return replace(
        model,
        rank=rank, pid=pid, host=f"node{rank // 8}", looks=looks, activity=activity, collectives=collectives, environ=environ,
    )  # fmt: skip
