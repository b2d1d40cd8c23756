"""From what the agent's probes ``collectives`` and ``call_sites`` answer to the types of the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .model import CallSites, Maybe, NotAvailable, RankCollectives
from .outside.flightrec.build import places, rank_collectives

__all__ = ["call_sites", "collectives"]


def collectives(rank: int, pid: int, answer: Mapping[str, Any], *, where: str | None = None) -> RankCollectives:
    """The groups and calls of one rank; `where` is the user's frame that its training thread is in, where that is known."""
    return rank_collectives(rank, pid, answer, source="agent", where=where)


def call_sites(answer: Mapping[str, Any]) -> Maybe[CallSites]:
    """From where one rank issued its collectives."""
    return places(answer) if answer["at"] else NotAvailable(answer["note"])
