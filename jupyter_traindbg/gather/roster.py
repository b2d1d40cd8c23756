"""Who ought to be there: the launcher, how many processes it was told to start, and which of them are gone."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..attach import process
from ..attach.base import Link
from ..attach.discover import RankProcess, launcher_of, launcher_ranks
from ..command_lines import is_launcher as runs_a_launcher
from ..errors import TargetGone
from ..model import Socket
from ..outside import procfs

__all__ = [
    "Missing",
    "Place",
    "is_launcher",
    "launcher_of",
    "missing",
    "place",
    "siblings",
    "told_endpoint",
    "told_nodes",
    "told_nproc",
]

_NPROC = ("nproc-per-node", "num-gpus")
_ALL = ("num-processes",)  # accelerate counts those of all hosts
_NODES = ("nnodes", "num-machines")
_C10D_PORT, _STATIC_PORT = 29400, 29500
_LOOPBACK = ("localhost", "127.", "::1", "[::1]")
_ANYWHERE = ("0.0.0.0", "::")


@dataclass(frozen=True)
class Missing:
    """A rank that has no living process here. ``pid`` is that of its zombie, 0 where nothing is left of it.

    ``why``: it has ended; it runs on another host, or should; or, where nobody says how many belong here, one of the two.
    """

    rank: int
    local_rank: int
    pid: int
    why: Literal["ended", "elsewhere", "not known"]


@dataclass(frozen=True)
class Place:
    """Where a living rank stands, as its environment says. None where it says nothing (``mp.spawn``).

    ``on_this_host_only``: the ranks meet at a loopback address, or this one has no connection beyond.
    """

    pid: int
    rank: int
    local_rank: int
    local_world_size: int | None
    on_this_host_only: bool


def is_launcher(pid: int) -> bool:
    """Whether `pid` has started ranks, by what their environment says, or is to start some, by its command line."""
    return any(rank.rank is not None for rank in launcher_ranks(pid)) or runs_a_launcher(procfs.command(pid))


def siblings(links: Sequence[Link], launcher_pid: int | None) -> list[Link]:
    """Links to the other ranks of the job on this host: a hang of one rank is mostly another one's fault.

    Those of the same launcher, or, where the ranks were started one by one, those that meet at the same address and port. 10 ms.
    """
    known = {link.pid for link in links}
    ranks = launcher_ranks(launcher_pid) if launcher_pid else _meeting_with(links[0].pid) if links else []
    found = []
    for n, rank in enumerate(ranks):
        if rank.pid not in known:
            with contextlib.suppress(TargetGone):  # it ended while we looked, and is then missed below
                number = n if rank.rank is None else rank.rank
                found.append(process.link(rank.pid, number, rank.world_size or len(ranks)))
    return found


def _meeting_with(pid: int) -> list[RankProcess]:
    own = procfs.environ(pid)
    if not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= own.keys():
        return []
    place = own["MASTER_ADDR"], own["MASTER_PORT"], own["WORLD_SIZE"]
    table = procfs.processes()
    stuck = frozenset(procfs.uninterruptible(table))
    told = {p: procfs.environ(p) for p in table if p not in stuck}
    same = {p: e for p, e in told.items() if (e.get("MASTER_ADDR"), e.get("MASTER_PORT"), e.get("WORLD_SIZE")) == place}
    ranks = {p: e["RANK"] for p, e in same.items() if e.get("RANK", "").isdigit()}
    topmost = [
        p for p in ranks if table[p].parent not in ranks and procfs.is_python(p)
    ]  # its DataLoader workers inherit all this
    return [RankProcess(p, int(ranks[p]), int(place[2]) if place[2].isdigit() else None, None) for p in topmost]


def told_nproc(command: Sequence[str]) -> int | None:
    """The number of processes that a launcher's command line asks for on this host, where it is written there as a number."""
    per_node, in_all = _told(command, _NPROC), _told(command, _ALL)
    return per_node if per_node is not None or in_all is None else in_all // told_nodes(command)


def told_nodes(command: Sequence[str]) -> int:
    """The number of hosts that it asks for; the least one of ``--nnodes 2:4``."""
    return _told(command, _NODES) or 1


def _told(command: Sequence[str], names: Sequence[str]) -> int | None:
    for name, value in _options(command):
        if name in names:
            number = value.partition(":")[0]
            return int(number) if number.isdigit() else None
    return None


def told_endpoint(command: Sequence[str]) -> tuple[str, int] | None:
    """Where the torchruns of all hosts are to meet: the address and port that one was given, or torchrun's defaults for the other."""
    words = dict(_options(command))
    endpoint = words.get("rdzv-endpoint", "")
    if endpoint:
        address, _, port = (
            endpoint.rpartition(":") if endpoint[-1:].isdigit() and ":" in endpoint else (endpoint, "", "")
        )
        return (address.strip("[]") or "localhost", int(port) if port.isdigit() else _C10D_PORT)
    if {"master-addr", "master-port", "nnodes"} & words.keys():
        port = words.get("master-port", "")
        return words.get("master-addr", "127.0.0.1"), int(port) if port.isdigit() else _STATIC_PORT
    return None


def _options(command: Sequence[str]) -> Iterator[tuple[str, str]]:
    """``--some-name value``, ``--some_name=value``: names with dashes and values."""
    for word, following in itertools.pairwise([*command, ""]):
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            yield name.replace("_", "-"), value if equals else following


def place(pid: int, rank: int, environ: Mapping[str, str], connections: Sequence[Socket] = ()) -> Place:
    """Where a living rank stands, from its environment, and from its TCP sockets."""

    def number(name: str) -> int | None:
        value = environ.get(name, "")
        return int(value) if value.isdigit() else None

    local = number("LOCAL_RANK")
    address = environ.get("MASTER_ADDR", "")
    ends = [end for c in connections for end in (c.local_host, c.remote_host) if end and end not in _ANYWHERE]
    within = address.startswith(_LOOPBACK) if address else bool(ends) and all(e.startswith(_LOOPBACK) for e in ends)
    return Place(pid, rank, rank if local is None else local, number("LOCAL_WORLD_SIZE"), within)


def missing(present: Sequence[Place], world_size: int, nproc: int | None, launcher_pid: int | None) -> list[Missing]:
    """The ranks of the job without a living process on this host, those of other hosts among them.

    `nproc`: how many belong here; None where nobody says so. A launcher starts its processes in the order of their local ranks, so that
    what is left of a dead one (a zombie) is told by its place in the order of starting.
    """
    all_here = nproc is None and any(p.on_this_host_only for p in present)
    here = world_size if nproc is None else nproc
    first = min((p.rank - p.local_rank for p in present), default=0)
    there = {p.rank for p in present}
    gone = [rank for rank in range(first, min(first + here, world_size)) if rank not in there]
    dead = _zombies(launcher_pid, present, first, gone)
    surely = launcher_pid is not None and (nproc is not None or all_here) and bool(present or dead)
    found = [Missing(r, r - first, dead.get(r, 0), "ended" if surely or r in dead else "not known") for r in gone]
    others = [rank for rank in range(world_size) if not first <= rank < first + here and rank not in there]
    return found + [Missing(rank, rank % max(1, here), 0, "elsewhere") for rank in others]


def _zombies(launcher_pid: int | None, present: Sequence[Place], first: int, gone: Sequence[int]) -> dict[int, int]:
    """The pids of dead ranks that nobody has waited for yet, by rank."""
    table = procfs.processes()
    alive = {p.pid: p.rank for p in present}
    parents = {table[pid].parent for pid in alive if pid in table} | ({launcher_pid} if launcher_pid else set())
    names = {table[pid].comm for pid in alive if pid in table}
    children = procfs.children(parents, table)
    found: dict[int, int] = {}
    for zombie in children:
        if zombie.state not in "ZX" or not (zombie.comm in names or zombie.comm.startswith(("python", "pt_main"))):
            continue
        started = (zombie.start_ticks, zombie.pid)
        earlier = [alive[p.pid] for p in children if p.pid in alive and (p.start_ticks, p.pid) < started]
        later = [alive[p.pid] for p in children if p.pid in alive and (p.start_ticks, p.pid) > started]
        low, high = max(earlier, default=first - 1), min(later, default=max(gone, default=first) + 1)
        fitting = [rank for rank in gone if low < rank < high and rank not in found]
        if fitting:
            found[fitting[0]] = zombie.pid
    return found
