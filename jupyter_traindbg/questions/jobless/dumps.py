"""Which collectives every rank had issued, by the dump files of their flight recorders."""

from __future__ import annotations

import dataclasses
import time

from ...diagnose import collectives as rules
from ...diagnose.at_source import at_source
from ...diagnose.collectives import mispaired
from ...gather import call_sites
from ...model import Collectives, Finding
from ...outside import flightrec
from ...outside.dumped_stacks import here
from ...tasks import Task

__all__ = ["SOURCES_S", "ask", "judged"]

SOURCES_S = 1.0
"""So long a disk may take to give the program's files."""


def ask(path: str, *, timeout: float) -> Collectives:
    """The dumps at `path`, a file or a directory."""
    recorded = flightrec.read(path, timeout=timeout)
    return dataclasses.replace(recorded.collectives, verdict=tuple(judged(recorded)))


def judged(recorded: flightrec.Recorded) -> list[Finding]:
    """The verdict on dumps that were read. They were written because a call timed out, so whatever is not done counts."""
    seen, sites = recorded.collectives, recorded.sites
    absent = [*seen.missing, *(s.rank for s in seen.silent if s.rank is not None)]
    world_size = seen.world_size or len(seen.ranks)
    found = rules.findings(seen.ranks, world_size=world_size, missing=absent)
    found = found or rules.unexplained(seen.ranks, world_size=world_size)
    reading = Task(lambda: here.find((), recorded.written_s, sites.values()), "sources")
    source = reading.in_time(time.monotonic() + SOURCES_S) or here.Found()
    calls = call_sites.read(sites.values(), source.texts.get)
    apart = mispaired.findings(seen.ranks, world_size, sites, calls.forks, stuck=bool(found))
    return list(at_source([*apart, *found], source.lines))
