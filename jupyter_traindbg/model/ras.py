"""What NCCL's own service for reliability (RAS) reports of its communicators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["RasCommunicator", "RasRank", "RasReport"]


@dataclass(frozen=True)
class RasRank:
    """One rank of a communicator as NCCL's RAS service has it; `counts` are the collectives that it has issued, by name.

    ``state``: ``"silent"`` where its process does not answer the others, ``"dead"`` where they have given it up.
    """

    rank: int
    host: str
    pid: int
    state: Literal["starting", "running", "ending", "failed", "aborted", "silent", "dead"]
    counts: Mapping[str, int]


@dataclass(frozen=True)
class RasCommunicator:
    """One NCCL communicator. Its ranks are numbered within it."""

    name: str
    size: int
    ranks: Sequence[RasRank]


@dataclass(frozen=True)
class RasReport:
    """What NCCL's RAS service says. Before NCCL 2.28 it has words only: ``text``, which is not to be trusted as such."""

    nccl: str
    communicators: Sequence[RasCommunicator]
    text: str = ""
