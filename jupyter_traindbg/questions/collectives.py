"""Show which collectives every rank issued, and who is missing or different."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass

from .. import evidence, evidence_collectives
from ..attach.base import Link, ask_all
from ..diagnose import collectives as rules
from ..diagnose.at_source import at_source
from ..diagnose.collectives import mispaired
from ..errors import TraindbgError
from ..frames.whose import full_place, user_frame
from ..gather import call_sites
from ..gather import stacks as gathered
from ..model import CallSites, Collectives, Finding, NotAvailable, ProcessStacks, RankCollectives
from ..tasks import Task
from .base import DEADLINE_S, InReport, Ranks, Whom

WHOM = Whom.TOGETHER
IN_REPORT = InReport("Collectives", 30)

AGAIN_WITHIN_S = 3.0
"""So long we wait for calls to prove that they stand still, in a job of which nobody knows whether it is stuck."""
STACKS_S, SOURCES_S = 1.0, 1.0
AT_WORK_S = 60.0
"""A rank that uses the CPU for longer while all others wait for it is named, whatever it does."""
BUSY = "the others wait for it, and it is computing: `traindbg diagnose` tells work from a hang"


def ask(job: Ranks, *, timeout: float = DEADLINE_S) -> Collectives:
    """What every rank issued on every process group and which calls wait, from torch's flight recorders, and who holds them up.

    Needs nothing prepared (torch 2.8 or newer for gloo, 2.4 for NCCL). About 20 ms a rank where agents run; up to 3 s more where calls
    are under way and have not waited long enough to tell a stuck job from a slow one. No findings where all is as usual.
    """
    began = time.monotonic()
    job.need_training(timeout)
    links = job.open_links()
    seen = _look(links, timeout)
    left_s = timeout - (time.monotonic() - began)
    settles_s = None if seen.verdict else rules.settles_in_s(seen.ranks, min(AGAIN_WITHIN_S, left_s / 2))
    if settles_s is not None:
        time.sleep(settles_s)
        seen = _look(links, timeout - (time.monotonic() - began))
    return dataclasses.replace(seen, taken_s=time.monotonic() - began)


@dataclass(frozen=True)
class _Answer:
    """What one rank said. ``running``: its training thread uses the CPU, so it may be on its way."""

    record: RankCollectives
    stacks: ProcessStacks
    running: bool
    sites: CallSites | None


def _look(links: list[Link], timeout: float) -> Collectives:
    ends = time.monotonic() + timeout
    asked = ask_all(links, lambda link: _ask(link, ends), timeout).need_one()
    answers = [answer for _, answer in asked.answers]
    quiet = {one.rank for one in asked.silent if one.rank is not None}
    world_size = max(link.world_size for link in links)
    missing = sorted(set(range(world_size)) - {link.rank for link in links})
    records = [a.record for a in answers]
    sites = {a.record.rank: a.sites for a in answers if a.sites is not None}
    of_rank = {link.rank: link for link, _ in asked.answers}
    first = asked.answers[0][0]
    reading = Task(lambda: call_sites.read(sites.values(), lambda file: first.text_of(file, SOURCES_S)), "calls")
    verdict = rules.findings(
        records,
        world_size=world_size,
        missing=[*missing, *sorted(quiet)],
        where=_places_from_outside([link for link in links if link.rank in quiet]),
        patient=True,
    )
    busy = {a.record.rank for a in answers if a.running}
    kept, notes = _without_busy(verdict, busy, records)
    noted = tuple(dataclasses.replace(r, note="; ".join(filter(None, (r.note, notes.get(r.rank))))) for r in records)
    lines = (
        gathered.lines([a.stacks for a in answers], ends, lambda p, file: of_rank[p.rank].text_of(file, SOURCES_S))
        if kept
        else {}
    )
    calls = reading.in_time(ends) or call_sites.Read()
    kept = [*mispaired.findings(records, world_size, sites, calls.forks, stuck=bool(kept)), *kept]
    lines = {**calls.sources, **lines}
    return Collectives(noted, asked.silent, tuple(missing), world_size, tuple(at_source(kept, lines)))


def _without_busy(
    verdict: Sequence[Finding], busy: set[int], records: Sequence[RankCollectives]
) -> tuple[list[Finding], dict[int, str]]:
    """A rank that computes while others wait for a while is at work, on an evaluation, say: that is worth a note, and no accusation."""
    waited = max((r.waiting_s for r in records if not isinstance(r.waiting_s, NotAvailable)), default=0.0)
    if waited >= AT_WORK_S:
        return list(verdict), {}
    working = [f for f in verdict if f.code == "collective_not_issued" and busy.issuperset(f.ranks)]
    notes = {r.rank: BUSY for r in records for f in working if r.rank in f.ranks}
    return [f for f in verdict if f not in working], notes


def _ask(link: Link, ends: float) -> _Answer:
    answer = link.call("collectives", {}, ends - time.monotonic())
    stacks = evidence.stacks(link.rank, link.pid, link.call("stacks", {}, max(0.1, ends - time.monotonic())))
    running = any(t.training and t.state == "running" for t in stacks.threads)
    where = _place([stacks])
    record = evidence_collectives.collectives(link.rank, link.pid, answer, where=where)
    return _Answer(record, stacks, running, _sites(link, ends))


def _sites(link: Link, ends: float) -> CallSites | None:
    """None where they cannot be read, or not in time: the calls themselves are known all the same."""
    try:
        told = evidence_collectives.call_sites(link.call("call_sites", {}, max(0.1, ends - time.monotonic())))
    except TraindbgError:
        return None
    return told if isinstance(told, CallSites) else None


def _places_from_outside(links: list[Link]) -> dict[int, str]:
    """Where ranks are whose agents do not answer."""

    def look(link: Link) -> str | None:
        return _place(link.stacks_outside(STACKS_S))

    return {link.rank: place for link, place in ask_all(links, look, STACKS_S).answers if place}


def _place(processes: Sequence[ProcessStacks]) -> str | None:
    """Where the training thread is in the user's code."""
    frames = (user_frame(t.frames) for p in processes for t in p.threads if t.training)
    frame = next(filter(None, frames), None)
    return full_place(frame) if frame else None
