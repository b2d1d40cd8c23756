"""Which collectives every rank had issued, by the dump files of their flight recorders."""

from __future__ import annotations

import dataclasses

from ...diagnose import collectives as rules
from ...model import Collectives, Finding
from ...outside import flightrec

__all__ = ["ask", "judged"]


def ask(path: str, *, timeout: float) -> Collectives:
    """The dumps at `path`, a file or a directory."""
    seen = flightrec.read(path, timeout=timeout)
    return dataclasses.replace(seen, verdict=tuple(judged(seen)))


def judged(seen: Collectives) -> list[Finding]:
    """The verdict on dumps that were read. They were written because a call timed out, so whatever is not done counts."""
    absent = [*seen.missing, *(s.rank for s in seen.silent if s.rank is not None)]
    world_size = seen.world_size or len(seen.ranks)
    found = rules.findings(seen.ranks, world_size=world_size, missing=absent)
    return found or rules.unexplained(seen.ranks, world_size=world_size)
