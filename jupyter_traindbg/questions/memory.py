"""Show the memory of every rank: resident and CUDA, who holds what, its curve, what grows at each step, and who holds that."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .. import evidence, evidence_growth
from ..attach.base import Link, ask_all
from ..diagnose import growth as verdicts
from ..diagnose.at_source import at_source
from ..diagnose.soundness import memory as curves
from ..errors import TraindbgError
from ..gather import growth as growth_of
from ..language import text
from ..model import Child, Maybe, Memory, MemoryLook, NotAvailable, RankMemory, Silent, WorkerMemory
from ..outside import private_memory, procfs
from ..tasks import Task
from .base import DEADLINE_S, InReport, Ranks, Whom

EXAMPLES = (
    ("", "of the job attached to, else of the only one there is"),
    ("torchrun:4711", "of all ranks of this launcher"),
    ("4711 --growth", "look for who holds more at each step, also where nothing seems to grow"),
)
OPTIONS = {"growth": "look for what grows over more steps, and also where it takes little memory; the deadline is 60 s"}
WHOM = Whom.HOSTS
IN_REPORT = InReport("Memory", 50)
READ_S, READ_SHARE = 4.0, 0.5
"""How long an agent may look for who holds what, at most and as a share of the whole time."""
WORKERS_S, GROWTH_WORKERS_S = 0.15, 2.0
GROWTH_S, LEAST_S = 60.0, 0.5
"""How long ``growth`` may take; how long a look at what grows may take at the least."""
_NO_DATASETS: Mapping[str, Any] = {"lists": (), "datasets": ()}
WORKER = "pt_data_worker"
_Who = tuple[int, int]
"""The rank and the pid of a process: on several hosts, a pid is no name."""


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
    hosts, silent = job.on_each_host(sizes, timeout, timeout)
    judged = [_judged(one) for seen in hosts.values() for one in seen.ranks]
    known = [curve for _, of_rank in judged for curve in of_rank]
    grows = any(curve.growth.grows for curve in known)
    of_rank = {(rank.rank, rank.pid): rank for rank, _ in judged}
    looked = _looked(job, of_rank, growth, grows, ends) if look else {}
    none = Grown(NotAvailable(text("not looked at")))
    ranks = [_with(rank, looked.get(who, none)) for who, rank in sorted(of_rank.items())]
    verdict = verdicts.findings(ranks, curves.findings(known))
    lines = growth_of.source_lines(verdict, job.open_links(), ends) if verdict else {}
    quiet = (*(one for seen in hosts.values() for one in seen.silent), *silent)
    return Memory(tuple(ranks), quiet, tuple(at_source(verdict, lines)))


def _with(rank: RankMemory, seen: Grown) -> RankMemory:
    return replace(rank, look=seen.look, workers=seen.workers)


# --- how much there is ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sizes:
    """Of one rank, its curves not judged yet, and what these are judged by: the number of the first step since the attach, and as the
    optimizer counts; how much mapped files have added.
    """

    memory: RankMemory
    first_step: int
    own_step: int | None
    mapped_growth_bytes: int


@dataclass(frozen=True)
class SizesOfHost:
    """Of the ranks on one host, and who of them gave no answer."""

    ranks: Sequence[Sizes]
    silent: tuple[Silent, ...]


def sizes(links: Sequence[Link], timeout: float) -> SizesOfHost:
    """Of the ranks behind `links`, which are on this host. Raises why where none answers."""
    read_s = min(READ_S, timeout * READ_SHARE)

    def of_rank(link: Link) -> Sizes:
        answer = link.call("memory", {"deadline_s": read_s}, timeout)  # which may tell the rank
        below = [Child(c.pid, c.comm, procfs.rss_bytes(c.pid)) for c in procfs.descendants(link.pid, apart=link.others)]
        seen = evidence.memory(link.rank, link.pid, answer, below)
        return Sizes(seen, answer["first_step"], answer["own_step"], answer["mapped_growth_bytes"])

    asked = ask_all(links, of_rank, timeout).need_one()
    return SizesOfHost([one for _, one in asked.answers], asked.silent)


def _judged(one: Sizes) -> tuple[RankMemory, list[curves.Curve]]:
    seen = one.memory
    _, rss, cuda = zip(*seen.curve, strict=True) if seen.curve else ((), (), ())
    recorded = curves.Recorded(rss, cuda, one.first_step, one.own_step, one.mapped_growth_bytes)
    of_rank = curves.curves(seen.rank, seen.pid, recorded)
    return replace(seen, growth=of_rank[0].growth.words), of_rank


# --- what grows ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grown:
    """What grows in a rank, and in its DataLoader workers."""

    look: Maybe[MemoryLook]
    workers: tuple[WorkerMemory, ...] = ()


def _looked(job: Ranks, ranks: Iterable[_Who], growth: bool, grows: bool, ends: float) -> dict[_Who, Grown]:
    """Where no host answers, of all `ranks` why."""
    left_s = max(LEAST_S, ends - time.monotonic())
    try:
        hosts, _ = job.on_each_host(grown, left_s, growth, grows, left_s)
    except TraindbgError as e:
        return dict.fromkeys(ranks, Grown(NotAvailable(e.cause)))
    return {who: one for seen in hosts.values() for who, one in seen.items()}


def grown(links: Sequence[Link], growth: bool, grows: bool, timeout: float) -> dict[_Who, Grown]:
    """Of the ranks behind `links`, which are on this host. `grows`: a curve has said that memory does."""
    ends = time.monotonic() + timeout
    answered = threading.Event()
    workers_s = GROWTH_WORKERS_S if growth else WORKERS_S
    watching = Task(lambda: _watch_workers(links, workers_s, answered), "workers")
    try:
        looks = growth_of.looks(links, timeout, growth=growth, grows=grows)
    finally:
        answered.set()
    private = watching.in_time(ends) or {}
    grow = any(one.a_second for of_rank in private.values() for one in of_rank.values())
    datasets = _datasets(links, ends) if grow else {}
    none = NotAvailable(text("not looked at"))
    return {
        (link.rank, link.pid): Grown(
            looks.get(link.pid, none),
            evidence_growth.workers(private.get(link.pid, {}), datasets.get(link.pid, _NO_DATASETS)),
        )
        for link in links
    }


def _watch_workers(
    links: Sequence[Link], window_s: float, answered: threading.Event
) -> dict[int, Mapping[int, private_memory.Growth]]:
    """By the pid of a rank, what its DataLoader workers have for themselves; see `private_memory.growth`."""
    below = {
        link.pid: [c.pid for c in procfs.descendants(link.pid, apart=link.others) if c.comm == WORKER] for link in links
    }
    grown = private_memory.growth([worker for of_rank in below.values() for worker in of_rank], window_s, answered)
    return {pid: {worker: grown[worker] for worker in of_rank if worker in grown} for pid, of_rank in below.items()}


def _datasets(links: Sequence[Link], ends: float) -> dict[int, Any]:
    """By the pid of a rank, what its agent knows of the datasets that the workers read; without those that do not tell."""
    left_s = max(LEAST_S, ends - time.monotonic())
    asked = ask_all(links, lambda link: link.call("dataset_lists", {}, left_s), left_s)
    return {link.pid: answer for link, answer in asked.answers}
