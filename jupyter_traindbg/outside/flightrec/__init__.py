"""Flight-recorder dumps on disk, of gloo or NCCL, one file a rank: what each rank issued last. No torch, no job, nothing executed."""

from __future__ import annotations

import dataclasses
import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...agent import flight
from ...errors import BadDump
from ...frames.whose import RawFrame, frames_of, full_place, user_frame
from ...language import later, text
from ...model import Collective, Collectives, Group, RankCollectives, Silent
from .build import rank_collectives
from .files import Dump, candidates, load

__all__ = ["read"]

DEADLINE_S = 60.0
MOST_FRAMES = 256
LATEST_S = 2 * 3600.0
"""A watchdog writes its dump when its time is over, which is half an hour at most as a rule. A file that is younger than the newest event
by more than this was copied, and its time tells nothing."""
_TIMES = (
    ("time_created_ns", 1e-9),
    ("time_created_us", 1e-6),
    ("time_discovered_started_ns", 1e-9),
    ("time_discovered_completed_ns", 1e-9),
)
NOT_IN_TIME = later("its dump was not read in time")


def read(path: str, *, timeout: float = DEADLINE_S) -> Collectives:
    """All dumps at `path`, a file or a directory with one a rank (``nccl_trace_rank_3``, ``rank_3.json``): a rank is the number at the end.

    Ranks without a dump are ``missing``; a damaged file makes its rank silent. Costs 45 ms a full dump (2000 calls). Raises `BadDump`
    where none can be read.
    """
    began = time.monotonic()
    read_in: list[_Read] = []
    silent = []
    errors: list[BadDump] = []
    for rank, dumps in _by_rank(candidates(path)).items():
        if time.monotonic() - began > timeout:
            silent.append(Silent(rank, 0, text(NOT_IN_TIME), text("give a longer --timeout")))
            continue
        try:
            read_in.append(_rank(rank, dumps))
        except BadDump as e:
            errors.append(e)
            silent.append(Silent(rank, 0, e.cause, e.next_step))
    if not read_in:
        raise (
            errors[0]
            if errors
            else BadDump(text("the dumps in {path} were not read in time", path=path), text("give a longer --timeout"))
        )
    newest_s = max((one.newest_s for one in read_in), default=0.0)
    ranks = sorted((one.at(newest_s) for one in read_in), key=lambda r: r.rank)
    world_size = _world_size(ranks)
    present = {r.rank for r in ranks}
    return Collectives(
        tuple(_with_members(r, world_size) for r in ranks),
        tuple(silent),
        tuple(sorted(set(range(world_size)) - present)),
        world_size,
        taken_s=time.monotonic() - began,
    )


def _by_rank(dumps: Sequence[Dump]) -> dict[int, list[Dump]]:
    """A file whose name tells no rank is rank 0 where it is alone, and left out elsewhere."""
    found: dict[int, list[Dump]] = {}
    for dump in dumps:
        rank = dump.rank if dump.rank is not None else 0 if len(dumps) == 1 else None
        if rank is not None:
            found.setdefault(rank, []).append(dump)
    if not found:
        raise BadDump(text("no name of these dumps ends in a rank"), text("name them like rank_0, rank_1, ..."))
    return found


@dataclass(frozen=True)
class _Read:
    """A rank's dumps as `flight.summary` has them, the newest event in them, and when they were written by the files' own times."""

    rank: int
    summary: Mapping[str, Any]
    source: str
    newest_s: float
    written_s: float

    def at(self, newest_s: float) -> RankCollectives:
        """With its wait, up to when the dump was written; where the file is a later copy, to the newest event of all ranks, `newest_s`."""
        copied = self.written_s - newest_s > LATEST_S
        now_s = max(newest_s, 0.0 if copied else self.written_s) or None
        return rank_collectives(self.rank, 0, {**self.summary, "now_s": now_s}, source=self.source)


def _rank(rank: int, dumps: Sequence[Dump]) -> _Read:
    """One rank may have a dump of each recorder, NCCL's and the other; of two of the same kind the newer counts."""
    newest: dict[str, tuple[Dump, dict[str, Any]]] = {}
    for dump in sorted(dumps, key=lambda d: d.written_s):
        content = load(dump.path)
        newest[_library(content)] = dump, content
    chosen = list(newest.values())
    summary = flight.summary([content for _, content in chosen], place=_place)
    note = f"of {len(dumps)} dumps of this rank {len(chosen)} are used" if len(chosen) < len(dumps) else ""
    return _Read(
        rank,
        {**summary, "note": note},
        ", ".join(os.path.basename(d.path) for d, _ in chosen),
        max((at for _, content in chosen for at in _events_s(content)), default=0.0),
        max(d.written_s for d, _ in chosen),
    )


def _events_s(content: dict[str, Any]) -> Iterator[float]:
    """When the calls of a dump were issued, and were seen to begin and to end, as Unix times."""
    entries = content.get("entries")
    for entry in entries if isinstance(entries, list) else ():
        for name, scale in _TIMES if isinstance(entry, dict) else ():
            if isinstance(value := entry.get(name), (int, float)) and 0 < value < 1e20:
                yield value * scale


def _library(content: dict[str, Any]) -> str:
    entries = content.get("entries")
    first = entries[0] if isinstance(entries, list) and entries else None
    name = first.get("profiling_name") if isinstance(first, dict) else None
    return name.partition(":")[0] if isinstance(name, str) else ""


def _place(frames: Any) -> str | None:
    """The innermost frame of the user's code. Entries of a dump have stacks unless they were turned off, innermost frame first."""
    told = frames[:MOST_FRAMES] if isinstance(frames, (list, tuple)) else ()
    frame = user_frame(frames_of(raw for raw in map(_python_frame, told) if raw is not None))
    return full_place(frame) if frame else None


def _python_frame(told: Any) -> RawFrame | None:
    """None of a frame of C++ and of what is no frame."""
    if not isinstance(told, dict):
        return None
    file, line, name = told.get("filename"), told.get("line"), told.get("name")
    if not (isinstance(file, str) and isinstance(name, str) and isinstance(line, int)):
        return None
    return (file, line, name) if file.endswith(".py") or file.startswith("<") else None


# --- who is missing ------------------------------------------------------------------------------------------------


def _world_size(ranks: Iterable[RankCollectives]) -> int:
    """By the default group's ranks where the dumps name them, else by its all_gathers: their output is that of all ranks."""
    size = 0
    for r in ranks:
        size = max(size, r.rank + 1)
        default = {g.name for g in r.groups if g.description == "default_pg"}
        size = max([size, *(max(g.ranks, default=-1) + 1 for g in r.groups)])
        size = max([size, *(_gathered(c) for c in r.calls if c.group in default)])
    return size


def _gathered(call: Collective) -> int:
    """How many ranks a call of all_gather had; 0 where that cannot be told."""
    if call.op != "all_gather" or len(call.input_sizes) != 1:
        return 0
    own, all_of_them = math.prod(call.input_sizes[0]), sum(math.prod(size) for size in call.output_sizes)
    return all_of_them // own if own > 0 and all_of_them % own == 0 else 0


def _with_members(rank: RankCollectives, world_size: int) -> RankCollectives:
    """gloo's dumps do not say who is in a group; the default one has everybody."""

    def complete(group: Group) -> Group:
        if group.ranks or group.description != "default_pg":
            return group
        return dataclasses.replace(group, ranks=tuple(range(world_size)))

    return dataclasses.replace(rank, groups=tuple(complete(g) for g in rank.groups))
