"""Which collectives every rank had issued, by the dump files of their flight recorders."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Sequence

from ...diagnose import collectives as rules
from ...diagnose.at_source import at_source
from ...diagnose.collectives import mispaired
from ...gather import call_sites
from ...model import CallSites, Collectives, DumpedProcess, Finding
from ...outside import flightrec
from ...outside.dumped_stacks import here
from ...tasks import Task

__all__ = ["SOURCES_S", "ask", "judged", "sources"]

SOURCES_S = 1.0
"""So long a disk may take to give the program's files."""


def ask(path: str, *, timeout: float) -> Collectives:
    """The dumps at `path`, a file or a directory."""
    recorded = flightrec.read(path, timeout=timeout)
    source = sources((), recorded.written_s, recorded.sites.values())
    return dataclasses.replace(recorded.collectives, verdict=tuple(judged(recorded, source)))


def sources(looks: Sequence[DumpedProcess], written_s: float, issued: Iterable[CallSites]) -> here.Found:
    """The source behind what was dumped, as `here.find` says it; nothing where the disk does not give it in time."""
    reading = Task(lambda: here.find(looks, written_s, issued), "sources")
    return reading.in_time(time.monotonic() + SOURCES_S) or here.Found()


def judged(recorded: flightrec.Recorded, source: here.Found) -> list[Finding]:
    """The verdict on dumps that were read. They were written because a call timed out, so whatever is not done counts."""
    seen, sites = recorded.collectives, recorded.sites
    absent = [*seen.missing, *(s.rank for s in seen.silent if s.rank is not None)]
    world_size = seen.world_size or len(seen.ranks)
    found = rules.findings(seen.ranks, world_size=world_size, missing=absent)
    found = found or rules.unexplained(seen.ranks, world_size=world_size)
    calls = call_sites.read(sites.values(), source.texts.get)
    apart = mispaired.findings(seen.ranks, world_size, sites, calls.forks, stuck=bool(found))
    return list(at_source([*apart, *found], source.lines))
