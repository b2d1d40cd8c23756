"""A call of a collective, or of send or receive, of a rank, as torch's flight recorder has it."""

from __future__ import annotations

from collections.abc import Iterator

from ..language import later
from ..model import Collectives
from .base import Column, Question, Row, fields

COST = later("20 ms a rank; up to 3 s more where calls are under way, to tell a stuck job from a slow one")
ASKS = (Question("collectives"),)
COLUMNS = (
    Column("rank", int, later("the rank that issued it")),
    Column("pid", int, later("its process")),
    Column("group_name", str, later("its process group: `name` in `groups`")),
    Column("sequence", int, later("counts the calls on that group; of sends and receives by themselves")),
    Column("op", str, later("`all_reduce`, `broadcast`, `send` ...")),
    Column("state", str, later("`issued`, `started` or `completed`")),
    Column("p2p", bool, later("whether it is a send or a receive")),
    Column("peer", int, later("of these the other rank")),
    Column("input_sizes", list[list[int]], later("the shape of each input")),
    Column("output_sizes", list[list[int]], later("the shape of each output")),
    Column("dtypes", list[str], later("their types")),
    Column("issued_s", float, later("when it was issued, in seconds since the epoch")),
    Column("issued_at", str, later("where: `file:line function`, where stacks were recorded")),
    Column(
        "rank_waits_s",
        float,
        later("since when the oldest call of this rank that is not completed waits; NULL where none does"),
    ),
    Column("overwritten", bool, later("whether the recorder has overwritten older calls of this rank")),
    Column("source", str, later("who told it: `agent`, or a dump's name")),
)


def rows(collectives: Collectives) -> Iterator[Row]:
    for rank in collectives.ranks:
        of_rank = {
            **fields(rank, "rank", "pid", "source"),
            "rank_waits_s": rank.waiting_s or None,
            "overwritten": rank.capacity_reached,
        }
        for call in rank.calls:
            yield (
                of_rank
                | fields(
                    call, "sequence", "op", "state", "p2p", "peer", "input_sizes", "output_sizes", "dtypes", "issued_s"
                )
                | {"group_name": call.group, "issued_at": call.at}
            )
