"""A generation of Python's garbage collector of a rank: its counts since the start, and the full collections of one second."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..language import later, text
from ..model import NotAvailable
from .base import Column, Probe, Row, Told

COST = later("1 s, in which each collection calls two small functions of ours")
ASKS = (Probe("garbage"),)
COLUMNS = (
    Column("rank", int, later("the rank")),
    Column("pid", int, later("its process")),
    Column("generation", int, later("0 is the youngest; a collection of 2 looks at everything")),
    Column("enabled", bool, later("whether collections come by themselves")),
    Column("threshold", int, later("what sets one off")),
    Column("waiting", int, later("how much of that there is")),
    Column("collections", int, later("how many there were since the process was started")),
    Column("collected", int, later("how many objects these have freed")),
    Column("uncollectable", int, later("how many they could not free")),
    Column("frozen", int, later("objects that `gc.freeze()` has hidden from it")),
    Column("watched_s", float, later("how long it was watched")),
    Column("watched_collections", int, later("the collections of this generation meanwhile")),
    Column("pause_s", float, later("how long these held the process up, together")),
    Column("longest_pause_s", float, later("the longest of them")),
    Column("set_off_at", str, later("where most of them began: `file:line function`")),
)
FULL = 2
_NOT_TIMED = later("only collections of generation 2 are timed")


def rows(told: Told) -> Iterator[Row]:
    for rank, pid, answer in told.answers:
        for generation, counts in enumerate(answer["generations"]):
            yield {
                "rank": rank,
                "pid": pid,
                "generation": generation,
                "watched_s": answer["window_s"],
                **{name: answer[name] for name in ("enabled", "frozen")},
                **counts,
                **_watched(answer["watched"], timed=generation == FULL),
            }


def _watched(watched: Mapping[str, Any], *, timed: bool) -> dict[str, Any]:
    if not timed:
        return dict.fromkeys(("watched_collections", "pause_s", "longest_pause_s"), NotAvailable(text(_NOT_TIMED)))
    frames = watched["places"][0]["frames"] if watched["places"] else ()
    file, line, function, *_ = frames[0] if frames else (None, None, None)
    return {
        "watched_collections": watched["count"],
        "pause_s": watched["pause_s"],
        "longest_pause_s": watched["longest_s"],
        "set_off_at": None if file is None else f"{file}:{line} {function}",
    }
