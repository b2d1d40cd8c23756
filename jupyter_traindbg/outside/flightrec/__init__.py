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
from ...model import CallSites, Collective, Collectives, Group, NotAvailable, RankCollectives, Silent
from .build import NOTHING_LATER, places, rank_collectives
from .files import Dump, candidates, load, no_dump
from .naming import Told, settled, told_by, unsettled

__all__ = ["Recorded", "read"]

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
TELLING_S = 1.0
"""The newest event is by so much later than a call, or it tells nothing of how long that waited: ranks that wait issue nothing more."""
NOT_IN_TIME = later("its dump was not read in time")


@dataclass(frozen=True)
class Recorded:
    """What dumps say. ``sites``: by rank, from where it issued its calls, of ranks whose dumps have stacks. ``written_s``: when the oldest
    of the files was written.
    """

    collectives: Collectives
    sites: Mapping[int, CallSites]
    written_s: float


def read(path: str | Sequence[str], *, timeout: float = DEADLINE_S) -> Recorded:
    """All dumps at `path`, a file, several, or a directory with one a rank (``nccl_trace_rank_3``, ``node1/rank3.json``): `naming` has
    the rules.

    Ranks without a dump are ``missing``; a damaged file makes its rank silent, and so is a dump of which nobody can say whose it is. What
    is no dump is left aside. Costs 45 ms a full dump (2000 calls). Raises `BadDump` where none can be read.
    """
    began = time.monotonic()
    dumps = [dump for one in ([path] if isinstance(path, str) else path) for dump in candidates(one)]
    whose, aside = _ranks(dumps, began + timeout)
    silent = [_nameless(dump) for dump in dumps if whose.get(dump.path, 0) is None]
    by_rank: dict[int, list[Dump]] = {}
    for dump in dumps:
        if (rank := whose.get(dump.path)) is not None:
            by_rank.setdefault(rank, []).append(dump)
    read_in: list[_Read] = []
    for rank, own in by_rank.items():
        if time.monotonic() - began > timeout:
            silent.append(Silent(rank, 0, text(NOT_IN_TIME), text("give a longer --timeout")))
            continue
        try:
            found = _rank(rank, own)
        except BadDump as e:
            silent.append(Silent(rank, 0, e.cause, e.next_step))
        else:
            read_in += [found] if found is not None else []
    if not read_in:
        raise BadDump(silent[0].reason, silent[0].next_step) if silent else no_dump(dumps[0].path)
    newest_s = max((one.newest_s for one in read_in), default=0.0)
    ranks = _counting_collectives(sorted((one.at(newest_s) for one in read_in), key=lambda r: r.rank))
    world_size = _world_size(ranks)
    present = {r.rank for r in ranks}
    seen = Collectives(
        tuple(_with_members(_noted(r, aside), world_size) for r in ranks),
        tuple(silent),
        tuple(sorted(set(range(world_size)) - present)),
        world_size,
        taken_s=time.monotonic() - began,
    )
    sites = {one.rank: one.sites for one in read_in if one.sites.at}
    return Recorded(seen, sites, min(one.oldest_s for one in read_in))


def _ranks(dumps: Sequence[Dump], ends: float) -> tuple[dict[str, int | None], list[str]]:
    """The rank of each file, None of a dump whose rank nothing tells; without those that are no dumps, where they had to be looked at, and
    without those of older incidents, whose directories come beside. A file that is alone may have any name.
    """
    if len(dumps) == 1:
        return {dumps[0].path: dumps[0].rank or 0}, []
    ranks: dict[str, int | None] = {d.path: d.rank for d in dumps}
    told: dict[str, Told] = {}
    for look_at in ([d for d in dumps if d.rank is None], [d for d in dumps if d.rank is not None]):
        if not unsettled(ranks):
            break
        for dump in look_at:
            content = _content(dump) if time.monotonic() < ends else {}
            if content is None:
                ranks.pop(dump.path)
            elif content:
                told[dump.path] = told_by(content)
    found = settled(ranks, told)
    older = told.keys() - found.keys()
    kept = {path: rank for path, rank in ranks.items() if path not in older}
    return {**kept, **found}, sorted({os.path.basename(os.path.dirname(path)) for path in older})


def _noted(rank: RankCollectives, aside: Sequence[str]) -> RankCollectives:
    """With the directories that were left aside, of which all ranks are told."""
    if not aside:
        return rank
    said = f"dumps of the same ranks in {', '.join(aside)} are older, and left aside"
    return dataclasses.replace(rank, note="; ".join(filter(None, (rank.note, said))))


def _content(dump: Dump) -> dict[str, Any] | None:
    """Nothing of a damaged one: what is wrong with it is said where it is read."""
    try:
        return load(dump.path)
    except BadDump:
        return {}


def _nameless(dump: Dump) -> Silent:
    reason = text("whose dump {name} is, neither its name tells nor what is in it", name=os.path.basename(dump.path))
    return Silent(None, 0, reason, text("name them like rank_0, rank_1, ..."))


@dataclass(frozen=True)
class _Read:
    """A rank's dumps as `flight.summary` has them, the newest event in them, and when the last and the first of them were written by the
    files' own times.
    """

    rank: int
    summary: Mapping[str, Any]
    sites: CallSites
    source: str
    newest_s: float
    written_s: float
    oldest_s: float

    def at(self, newest_s: float) -> RankCollectives:
        """With its wait, up to when the dump was written; where the file is a later copy, to the newest event of all ranks, `newest_s`."""
        copied = self.written_s - newest_s > LATEST_S
        now_s = max(newest_s, 0.0 if copied else self.written_s) or None
        found = rank_collectives(self.rank, 0, {**self.summary, "now_s": now_s}, source=self.source)
        if copied and not isinstance(found.waiting_s, NotAvailable) and found.waiting_s < TELLING_S:
            return dataclasses.replace(found, waiting_s=NotAvailable(NOTHING_LATER))
        return found


def _rank(rank: int, dumps: Sequence[Dump]) -> _Read | None:
    """One rank may have a dump of each recorder, NCCL's and the other; of two of the same kind the newer counts. None where its files
    hold something else.
    """
    newest: dict[str, tuple[Dump, dict[str, Any]]] = {}
    for dump in sorted(dumps, key=lambda d: d.written_s):
        content = load(dump.path)
        if content is not None:
            newest[_library(content)] = dump, content
    if not newest:
        return None
    chosen = list(newest.values())
    contents = [content for _, content in chosen]
    summary = flight.summary(contents, place=_place)
    known = [flight.Known(g["name"], g["description"], g["backend"], g["ranks"]) for g in summary["groups"]]
    notes = [f"of {len(dumps)} dumps of this rank {len(chosen)} are used"] if len(chosen) < len(dumps) else []
    notes += [f"its file has rank {d.rank} in its name" for d, _ in chosen if d.rank not in (rank, None)]
    return _Read(
        rank,
        {**summary, "note": "; ".join(notes)},
        places(flight.call_sites(contents, known, lambda frame: _python_frame(frame) or ())),
        ", ".join(os.path.basename(d.path) for d, _ in chosen),
        max((at for content in contents for at in _events_s(content)), default=0.0),
        max(d.written_s for d, _ in chosen),
        min(d.written_s for d, _ in chosen),
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


def _counting_collectives(ranks: Sequence[RankCollectives]) -> list[RankCollectives]:
    """Without the counts of groups that others send and receive on, where no call tells how many of them are collectives."""
    mixed = {c.group for r in ranks for c in r.calls if c.p2p}

    def kept(rank: RankCollectives) -> RankCollectives:
        own = {c.group for c in rank.calls}
        groups = [
            dataclasses.replace(g, last_issued=None, last_completed=None)
            if g.name in mixed and g.name not in own and g.last_issued
            else g
            for g in rank.groups
        ]
        return dataclasses.replace(rank, groups=tuple(groups))

    return [kept(rank) for rank in ranks]


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
