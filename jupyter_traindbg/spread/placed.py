"""A process of a job, and the host that it is on; the numbers that tell all of them apart."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

from .part import Member

__all__ = ["Placed", "numbered"]


@dataclass(frozen=True)
class Placed:
    """A process, and the host that it is on, by its name in `jupyter_traindbg.hosts.base.Hosts`."""

    host: str
    member: Member

    def ranked(self, rank: int, world_size: int) -> Placed:
        """As a trainer of that rank."""
        member = dataclasses.replace(self.member, rank=rank, world_size=world_size, trainer=True)
        return dataclasses.replace(self, member=member)


def numbered(placed: Iterable[Placed]) -> list[Placed]:
    """With a number for each that tells it from all others: trainers keep their rank where it is known and theirs alone."""
    placed = list(placed)
    trainers = sorted((p for p in placed if p.member.trainer), key=lambda p: (p.member.rank, p.member.pid))
    ranks = [p.member.rank for p in trainers]
    if -1 in ranks or len(set(ranks)) < len(ranks):
        ranks = list(range(len(trainers)))
    others = [p for p in placed if not p.member.trainer]
    first = max(ranks, default=-1) + 1
    total = first + len(others)
    done = [_with(p, rank, p.member.world_size) for p, rank in zip(trainers, ranks, strict=True)]
    return done + [_with(p, first + n, total) for n, p in enumerate(others)]


def _with(placed: Placed, rank: int, world_size: int) -> Placed:
    return dataclasses.replace(placed, member=dataclasses.replace(placed.member, rank=rank, world_size=world_size))
