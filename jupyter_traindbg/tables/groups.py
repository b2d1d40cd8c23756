"""A process group as one of its ranks has it."""

from __future__ import annotations

from collections.abc import Iterator

from ..language import later
from ..model import Collectives
from .base import Column, Question, Row, fields

COST = later("as `collectives`, with which it is asked")
ASKS = (Question("collectives"),)
COLUMNS = (
    Column("rank", int, later("the rank that has it")),
    Column("pid", int, later("its process")),
    Column("name", str, later("torch's name for it: `group_name` in `collectives`")),
    Column("description", str, later("what it is for: `default_pg` is the default one")),
    Column("backend", str, later("`gloo`, `nccl` ...")),
    Column("ranks", list[int], later("the global ranks in it, where they are known")),
    Column("size", int, later("how many these are")),
    Column("last_issued", int, later("the sequence number of the last call that this rank issued on it; 0: none")),
    Column("last_completed", int, later("the same of the last one that was completed")),
)


def rows(collectives: Collectives) -> Iterator[Row]:
    for rank in collectives.ranks:
        for group in rank.groups:
            yield (
                fields(rank, "rank", "pid")
                | fields(group, "name", "description", "backend", "last_issued", "last_completed")
                | {"ranks": group.ranks or None, "size": len(group.ranks) or None}
            )
