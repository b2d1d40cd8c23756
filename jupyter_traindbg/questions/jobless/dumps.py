"""Which collectives every rank had issued, by the dump files of their flight recorders."""

from __future__ import annotations

import dataclasses

from ...diagnose import collectives as rules
from ...model import Collectives
from ...outside import flightrec

__all__ = ["ask"]


def ask(path: str, *, timeout: float) -> Collectives:
    """The dumps at `path`, a file or a directory. They were written because a call timed out, so whatever is not done counts."""
    seen = flightrec.read(path, timeout=timeout)
    absent = [*seen.missing, *(s.rank for s in seen.silent if s.rank is not None)]
    assert seen.world_size is not None
    verdict = rules.findings(seen.ranks, world_size=seen.world_size, missing=absent)
    verdict = verdict or rules.unexplained(seen.ranks, world_size=seen.world_size)
    return dataclasses.replace(seen, verdict=tuple(verdict))
