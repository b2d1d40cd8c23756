"""From what the agent's probe ``collectives`` answers to `jupyter_traindbg.model.RankCollectives`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .model import RankCollectives
from .outside.flightrec.build import rank_collectives

__all__ = ["collectives"]


def collectives(rank: int, pid: int, answer: Mapping[str, Any], *, where: str | None = None) -> RankCollectives:
    """The groups and calls of one rank; `where` is the user's frame that its training thread is in, where that is known."""
    return rank_collectives(rank, pid, answer, source="agent", where=where)
