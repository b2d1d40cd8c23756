"""Something that happened to a rank: a setting was changed, a checkpoint saved, a loss not finite, a rank lost; a hang, the end."""

from __future__ import annotations

from collections.abc import Iterator

from ..language import later
from ..model import Watched
from .base import Column, Question, Row, fields

COST = later("as `steps`; of a job that is watched (in a notebook each that is attached to) also what came before")
ASKS = (Question("watched"),)
COLUMNS = (
    Column("rank", int, later("the rank; one that happened to several is a row for each")),
    Column(
        "kind",
        str,
        later(
            "`lr`, `weight_decay`, `clip_norm`, `settings`, `checkpoint`, `nan`, `lost`, `hang`, `resumed`, `finished` ..."
        ),
    ),
    Column("step", int, later("the first step under it, or the last one before it, counted since the attach")),
    Column("optimizer_step", int, later("the same by the optimizer's own count")),
    Column("time_s", float, later("when, in seconds since the epoch")),
    Column("text", str, later("what it was, in words")),
)


def rows(watched: Watched) -> Iterator[Row]:
    for event in watched.events:
        for rank in event.ranks or (None,):
            yield {"rank": rank, **fields(event, "kind", "step", "optimizer_step", "time_s", "text")}
