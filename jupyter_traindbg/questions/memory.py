"""Show the memory of every rank: resident and CUDA, who holds what, its curve, what grows at each step, and who holds that."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .. import evidence, evidence_growth
from ..attach.base import Link
from ..diagnose import growth as verdicts
from ..diagnose.at_source import at_source
from ..diagnose.soundness import memory as curves
from ..errors import TraindbgError
from ..gather import growth as growth_of
from ..language import text
from ..model import Child, Maybe, Memory, MemoryLook, NotAvailable, RankMemory, Silent
from ..outside import private_memory, procfs
from ..tasks import Task
from .base import DEADLINE_S, InReport, Ranks, Whom

EXAMPLES = (
    ("", "of the job attached to, else of the only one there is"),
    ("torchrun:4711", "of all ranks of this launcher"),
    ("4711 --growth", "look for who holds more at each step, also where nothing seems to grow"),
)
OPTIONS = {"growth": "look for what grows over more steps, and also where it takes little memory; the deadline is 60 s"}
WHOM = Whom.TRAINERS
IN_REPORT = InReport("Memory", 50)
READ_S, READ_SHARE = 4.0, 0.5
"""How long an agent may look for who holds what, at most and as a share of the whole time."""
WORKERS_S, GROWTH_WORKERS_S = 0.15, 2.0
GROWTH_S = 60.0
"""How long ``growth`` may take."""
_NO_DATASETS: Mapping[str, Any] = {"lists": (), "datasets": ()}
WORKER = "pt_data_worker"


_Judged = tuple[RankMemory, list[curves.Curve]]
_Looks = dict[int, Maybe[MemoryLook]]


def ask(job: Ranks, *, growth: bool = False, look: bool = True, timeout: float = DEADLINE_S) -> Memory:
    """Memory of every rank: resident set, CUDA allocator, who holds what, the curve over the recorded steps, its verdict, and what grows.

    Long before the curve, the allocators' books of the last steps tell what grows, which each agent keeps from the first question on (10
    us a step); where there are too few yet, four steps are waited for, or more where the books move, for 0.3 s at most. Only where these
    leave something behind it is measured what can be reached from the program's variables, in some 20 pauses of 15 ms at most, to say who
    holds it; no code of the program runs, and nothing is kept alive. `growth` looks in any case, over 32 steps and among all objects
    (pauses of 30 ms for each 300,000), within 60 s. DataLoader workers are watched from outside meanwhile, for 0.15 s at least, or 2 s;
    eight times as long where they seem to grow. Without `look` nobody looks for what grows: sizes and curves alone.
    """
    ends = time.monotonic() + (max(timeout, GROWTH_S) if growth else timeout)
    workers_s = GROWTH_WORKERS_S if growth else WORKERS_S
    links = {link.pid: link for link in job.open_links()}
    answered = threading.Event()
    watching = Task(lambda: _watch_workers(links, workers_s, answered) if look else {}, "workers")
    try:
        judged, silent = _sizes(job, links, timeout)
        known = [curve for _, of_rank in judged for curve in of_rank]
        looks = _looks(job, known, growth, ends) if look else {}
    finally:
        answered.set()
    workers = watching.in_time(ends) or {}
    grow = any(one.a_second for of_rank in workers.values() for one in of_rank.values())
    datasets = _datasets(job, ends) if grow else {}
    none = NotAvailable(text("not looked at"))
    ranks = [
        replace(
            rank,
            look=looks.get(rank.pid, none),
            workers=evidence_growth.workers(workers.get(rank.pid, {}), datasets.get(rank.pid, _NO_DATASETS)),
        )
        for rank, _ in judged
    ]
    verdict = verdicts.findings(ranks, curves.findings(known))
    lines = growth_of.source_lines(verdict, links.values(), ends)
    return Memory(tuple(ranks), silent, tuple(at_source(verdict, lines)))


def _sizes(job: Ranks, links: Mapping[int, Link], timeout: float) -> tuple[tuple[_Judged, ...], tuple[Silent, ...]]:
    def build(rank: int, pid: int, answer: Any) -> _Judged:
        _, rss, cuda = zip(*answer["curve"], strict=True) if answer["curve"] else ((), (), ())
        about = (answer["first_step"], answer["own_step"], answer["mapped_growth_bytes"])
        of_rank = curves.curves(rank, pid, curves.Recorded(rss, cuda, *about))
        below = [
            Child(c.pid, c.comm, procfs.rss_bytes(c.pid)) for c in procfs.descendants(pid, apart=links[pid].others)
        ]
        return evidence.memory(rank, pid, answer, below, of_rank[0].growth.words), of_rank

    read_s = min(READ_S, timeout * READ_SHARE)
    return job.ask_agents("memory", {"deadline_s": read_s}, timeout, build)


# --- what grows ----------------------------------------------------------------------------------------------------


def _looks(job: Ranks, known: Sequence[curves.Curve], growth: bool, ends: float) -> _Looks:
    """By pid."""

    def ask(how: Mapping[str, Any], deadline_s: float) -> tuple[Sequence[tuple[int, Any]], Sequence[Silent]]:
        return job.ask_agents("growth", how, deadline_s, lambda _, pid, answer: (pid, answer))

    left_s = max(0.5, ends - time.monotonic())
    try:
        return growth_of.looks(ask, left_s, growth=growth, grows=any(curve.growth.grows for curve in known))
    except TraindbgError as e:
        return {curve.pid: NotAvailable(e.cause) for curve in known}


def _watch_workers(
    links: Mapping[int, Link], window_s: float, answered: threading.Event
) -> dict[int, Mapping[int, private_memory.Growth]]:
    """By the pid of a rank, what its DataLoader workers have for themselves; see `private_memory.growth`."""
    below = {
        pid: [c.pid for c in procfs.descendants(pid, apart=link.others) if c.comm == WORKER]
        for pid, link in links.items()
    }
    grown = private_memory.growth([worker for of_rank in below.values() for worker in of_rank], window_s, answered)
    return {pid: {worker: grown[worker] for worker in of_rank if worker in grown} for pid, of_rank in below.items()}


def _datasets(job: Ranks, ends: float) -> dict[int, Any]:
    """By the pid of a rank, what its agent knows of the datasets that the workers read; without those that do not tell."""
    try:
        told, _ = job.ask_agents(
            "dataset_lists", {}, max(0.5, ends - time.monotonic()), lambda _, pid, answer: (pid, answer)
        )
    except TraindbgError:
        return {}
    return dict(told)
