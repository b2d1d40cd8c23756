"""Files that a loop looks at while it sleeps: whether they are there, and who holds them where they are locks.

Programs make locks of files in three ways, and each tells its holder in another place: the kernel's list has those of ``flock`` and
``fcntl``, also where nobody waits inside such a call; a file that is a lock by being there mostly has the holder's pid written in it; and
whoever made it often has it open.
"""

from __future__ import annotations

import itertools
import os
import re
import socket
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from ..model import PolledFile
from . import filelocks, procfs

__all__ = ["look"]

MOST_FILES, MOST_NAMES = 4, 4096
FEWEST_RANKS = 3
"""Of two ranks, one file is no kind that the other should have made, too."""
BESIDE_S = 0.2
LARGEST_BYTES = 4096
"""Of a file that has its holder's pid in it."""
Told = Literal["locked", "written", "open"]
_NUMBER = re.compile(r"\d{1,6}")
_OF_RANKS = re.compile(r"(?:rank|worker|proc|process|replica)\W?_?$", re.IGNORECASE)
_PID = re.compile(r"\s*(?:pid\D{0,3})?(\d{1,10})\b(?:[\s:@,]+([\w.-]+))?", re.IGNORECASE)


def look(
    paths: Mapping[int, Iterable[str]], ranks: Sequence[int], world_size: int
) -> dict[int, tuple[PolledFile, ...]]:
    """What is known of `paths`, by the pid of the process that names them so; `ranks` are the pids of its job that are on this host, of
    `world_size` in all. A file system that hangs hangs this, too.

    0.1 ms a path, and 5 us for each open file of the ranks, then of this user's other processes, where nothing else tells who holds one;
    12 ms for each folder of 4,000 names.
    """
    folders, beside = _Folders(world_size), _Beside(ranks)
    found: dict[int, tuple[PolledFile, ...]] = {}
    for pid, named in paths.items():
        told = (_look(pid, path, ranks, folders, beside) for path in list(dict.fromkeys(named))[:MOST_FILES])
        found[pid] = tuple(one for one in told if one is not None)
    return found


def _look(pid: int, path: str, ranks: Sequence[int], folders: _Folders, beside: _Beside) -> PolledFile | None:
    """None of what is neither file nor folder, and of a name that is no path at all."""
    here = f"/proc/{pid}/root{path}" if path.startswith("/") else f"/proc/{pid}/cwd/{path}"
    try:
        about = os.stat(here)
    except FileNotFoundError:
        return _missing(path, os.path.dirname(here), folders) if "/" in path else None
    except (OSError, ValueError):
        return None
    if stat.S_ISDIR(about.st_mode):
        gaps = [gap for gap in folders.gaps(here) if not (gap.may_be_first or gap.may_be_next)]
        agreed = len({gap.rank for gap in gaps}) == 1
        return PolledFile(path, unmade=gaps[0].name, unmade_by=gaps[0].rank) if agreed else PolledFile(path)
    if not stat.S_ISREG(about.st_mode):
        return None
    known = PolledFile(path, age_s=max(0.0, time.time() - about.st_mtime), ident=(about.st_ino, about.st_mtime_ns))
    is_lock = "lock" in os.path.basename(path).lower()
    asked: tuple[tuple[Told, Callable[[], int | None]], ...] = (
        ("locked", lambda: filelocks.owner(about, besides=pid)),
        ("written", lambda: _written(here, about.st_size) if is_lock else None),
        ("open", lambda: _open(path, ranks) if is_lock else None),
        ("open", lambda: beside.having_open(path) if is_lock else None),
    )
    for how, find in asked:
        holder = find()
        if holder is not None and holder != pid:
            return replace(known, holder=filelocks.named(holder), how=how)
    return known


def _missing(path: str, folder: str, folders: _Folders) -> PolledFile | None:
    if not os.path.isdir(folder):
        return None
    name = os.path.basename(path)
    rank = next((one.rank for one in folders.gaps(folder) if one.name == name and not one.may_be_next), None)
    return PolledFile(path, there=False, unmade="" if rank is None else name, unmade_by=rank)


class _Gap(NamedTuple):
    """The name of a file that alone is missing of its kind, and its number. ``may_be_first``, ``may_be_next``: such files may as well be
    numbered by steps, from 1 on or up to now.
    """

    name: str
    rank: int
    may_be_first: bool
    may_be_next: bool


class _Folders:
    """What is missing in folders, each of which is read once, by whichever name the ranks have for it."""

    def __init__(self, world: int) -> None:
        self._world = world
        self._gaps: dict[tuple[int, int], list[_Gap]] = {}

    def gaps(self, folder: str) -> list[_Gap]:
        try:
            about = os.stat(folder)
        except OSError:
            return []
        where = about.st_dev, about.st_ino
        if where not in self._gaps:
            self._gaps[where] = _gaps(folder, self._world)
        return self._gaps[where]


class _Beside:
    """The processes of this host that are none of the job's: another one may build the same extension. Each path is looked for once, all
    together for `BESIDE_S`: what is known without is not to be lost on a host with many open files.
    """

    def __init__(self, ranks: Sequence[int]) -> None:
        self._ranks = {*ranks, os.getpid()}
        self._ends = time.monotonic() + BESIDE_S
        self._known: dict[str, int | None] = {}

    def having_open(self, path: str) -> int | None:
        """None, too, where the time did not suffice to look at all of them."""
        if path not in self._known:
            found = _open(path, self._pids())
            self._known[path] = found if time.monotonic() < self._ends else None
        return self._known[path]

    def _pids(self) -> Iterator[int]:
        pids = procfs.processes().keys() - self._ranks
        return itertools.takewhile(lambda _: time.monotonic() < self._ends, sorted(pids))


def _gaps(folder: str, world: int) -> list[_Gap]:
    """Where files are called alike but for a number, and all numbers of ranks but one are there. In the order of the names."""
    numbered: dict[tuple[str, str], dict[int, int]] = {}
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in itertools.islice(entries, MOST_NAMES))
    except OSError:
        return []
    for name in names:
        for found in _NUMBER.finditer(name):
            numbered.setdefault((name[: found.start()], name[found.end() :]), {})[int(found[0])] = len(found[0])
    ranks = set(range(world))
    return [
        _gap(before, after, rank, min(widths.values()), world)
        for (before, after), widths in numbered.items()
        if world >= FEWEST_RANKS and len(widths) == world - 1 and set(widths) < ranks
        for rank in ranks - set(widths)
    ]


def _gap(before: str, after: str, rank: int, width: int, world: int) -> _Gap:
    of_ranks = _OF_RANKS.search(before) is not None
    return _Gap(f"{before}{rank:0{width}}{after}", rank, rank == 0 and not of_ranks, rank == world - 1 and not of_ranks)


def _written(here: str, size: int) -> int | None:
    """The pid in it, where that is the first thing in it, and no other host's."""
    if not 0 < size <= LARGEST_BYTES:
        return None
    try:
        with open(here, encoding="utf-8", errors="replace") as f:
            found = _PID.match(f.read(LARGEST_BYTES))
    except OSError:
        return None
    if found is None or (found[2] is not None and found[2] != socket.gethostname()):
        return None
    return int(found[1])


def _open(path: str, pids: Iterable[int]) -> int | None:
    """The one of them that has it open, by the name that its own file system has for it: who tries to lock it has it open, too."""
    having = [pid for pid in pids if any(procfs.descriptor(pid, fd) == path for fd in procfs.descriptors(pid))]
    return having[0] if len(having) == 1 else None
