"""Which rank a dump is of: by its file's name, and where names do not settle it, by the directories they lie in and by what is in them."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ...agent import flight

__all__ = ["Told", "rank_in_name", "settled", "told_by", "unsettled"]

_WORD = re.compile(
    r"(?<![a-z])(?P<of>(?:local|node|group|global|world)[_.-]?)?r(?:ank)?[_.-]?(?P<n>\d{1,6})(?!\d)", re.IGNORECASE
)
_LAST = re.compile(r"(?<!\d)(\d{1,6})(?:\.(?:json|pickle|pkl|bin|dump|trace|fr|gz|txt|log))*$", re.IGNORECASE)
_OTHER_COUNTS = ("local", "node", "group")
"""What these words count within a host, or hosts."""


def rank_in_name(path: str) -> int | None:
    """The number behind ``rank`` or ``r`` in the name of the file, else at its end, else behind ``rank`` in its directory's name: torch
    writes ``nccl_trace_rank_3`` and ``comm_lib_trace_rank_3``, people add hosts and times.
    """
    directory, name = os.path.split(path)
    for found in (_behind_the_word(name), _at_the_end(name), _behind_the_word(os.path.basename(directory))):
        if found is not None:
            return found
    return None


def _behind_the_word(name: str) -> int | None:
    found = [m for m in _WORD.finditer(name) if not (m["of"] or "").lower().startswith(_OTHER_COUNTS)]
    return int(found[-1]["n"]) if found else None


def _at_the_end(name: str) -> int | None:
    found = _LAST.search(name)
    return int(found[1]) if found else None


# --- where names do not settle it ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Told:
    """What a dump says of itself: whose recorder it is, its rank where its groups have but one in common, how many ranks there are, and
    when its last call was issued (Unix time).
    """

    library: str
    rank: int | None
    world_size: int | None
    newest_s: float


def told_by(content: Mapping[str, Any]) -> Told:
    """A process is in all groups that it knows. Costs what reading the dump costs."""
    summary = flight.summary([dict(content)])
    groups = summary["groups"]
    members = [set(g["ranks"]) for g in groups if g["ranks"]]
    common = set.intersection(*members) if members else set()
    world = next((len(g["ranks"]) for g in groups if g["description"] == "default_pg" and g["ranks"]), None)
    library = next((g["backend"] for g in groups if g["backend"]), "")
    issued = [row[flight.FIELDS.index("issued_s")] or 0.0 for row in summary["calls"]]
    return Told(library, common.pop() if len(common) == 1 else None, world, max(issued, default=0.0))


def unsettled(ranks: Mapping[str, int | None]) -> bool:
    """Whether names leave open whose the files are: some tell no rank, or several directories have the same one."""
    several = len(ranks) > 1
    claimed = Counter(ranks.values())
    places = {os.path.dirname(path) for path, rank in ranks.items() if claimed[rank] > 1}
    return several and (None in claimed or len(places) > 1)


def settled(ranks: Mapping[str, int | None], told: Mapping[str, Told]) -> dict[str, int | None]:
    """The rank of each file of `told`, by what they say of themselves, else by ranks that count within a host: one directory each, in the
    order of their names. None where nothing tells. Directories that have the same ranks all the same are of several incidents: only the
    newest is in it.
    """
    known = {path: one.rank for path, one in told.items()}
    by_library: dict[str, list[str]] = {}
    for path, one in told.items():
        by_library.setdefault(one.library, []).append(path)
    found: dict[str, int | None] = {}
    for paths in by_library.values():
        by_host = _by_host({path: ranks.get(path) for path in paths}, {told[path].world_size for path in paths})
        own = {p: known[p] if known[p] is not None else by_host.get(p, ranks.get(p)) for p in paths}
        found.update(_of_one_incident(own, told))
    return found


def _of_one_incident(ranks: Mapping[str, int | None], told: Mapping[str, Told]) -> dict[str, int | None]:
    places: dict[int, set[str]] = {}
    for path, rank in ranks.items():
        if rank is not None:
            places.setdefault(rank, set()).add(os.path.dirname(path))
    if all(len(own) < 2 for own in places.values()):
        return dict(ranks)
    newest = os.path.dirname(max(ranks, key=lambda path: told[path].newest_s))
    return {path: rank for path, rank in ranks.items() if os.path.dirname(path) == newest}


def _by_host(ranks: Mapping[str, int | None], world_sizes: Collection[int | None]) -> dict[str, int]:
    """Ranks over all hosts, where each directory has ranks 0 to n - 1 and they are the whole world; else nothing."""
    hosts: dict[str, dict[int, str]] = {}
    for path, rank in ranks.items():
        if rank is None or rank in hosts.setdefault(os.path.dirname(path), {}):
            return {}
        hosts[os.path.dirname(path)][rank] = path
    sizes = {len(own) for own in hosts.values()}
    if len(hosts) < 2 or len(sizes) != 1 or any(sorted(own) != [*range(len(own))] for own in hosts.values()):
        return {}
    each = sizes.pop()
    if set(world_sizes) != {each * len(hosts)}:
        return {}
    return {
        own[rank]: i * each + rank for i, (_, own) in enumerate(sorted(hosts.items(), key=_natural)) for rank in own
    }


def _natural(item: tuple[str, object]) -> list[tuple[int, str]]:
    """``node2`` before ``node10``."""
    return [(int(n) if n else 0, words) for words, n in re.findall(r"(\D*)(\d*)", item[0])]
