"""The files that a process has open: how far it is in each, and how much the disk or the server below was given meanwhile.

By their names and by what the kernel keeps of descriptors and mounts: a `stat` on a file system that does not answer would not return.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

from ..model import OpenFile
from . import procfs

__all__ = ["Mode", "Seen", "between", "read"]

Mode = Literal["read", "write", "append"]
MOST_FILES = 32
MOST_DESCRIPTORS = 256
"""The newest ones of a process: a data set may keep thousands of shards open."""
SECTOR_BYTES = 512
_SECTORS_WRITTEN = 6
"""Its place in /sys/dev/block/*/stat (Documentation/block/stat.rst)."""
_WRITTEN_TO_SERVER = 5
"""Its place in the line ``bytes:`` of an NFS mount (fs/nfs/super.c, nfs_show_stats)."""
_NO_FILES = re.compile(r"/(dev|proc|sys)/|/memfd:|.*( \(deleted\)|\.(so[.\d]*|pyc?|pth|zip|egg|jar))$")
"""Descriptors on these are not what a training reads or writes."""
_NFS = re.compile(r"device \S+ mounted on (\S+) with fstype nfs")


class Seen(NamedTuple):
    """One file at one moment: the position in it, and the bytes that what is below it has been given since it was mounted (None: not
    known).
    """

    position: int
    on_disk: int | None


def read(pid: int) -> dict[tuple[str, Mode], Seen]:
    """The open regular files of `pid` by path and mode, without those that its output goes to. Some 20 us each."""
    output = {procfs.descriptor(pid, fd) for fd in (1, 2)}
    newest = sorted(map(int, procfs.descriptors(pid)), reverse=True)[:MOST_DESCRIPTORS]
    mounts = _Mounts(f"/proc/{pid}")
    found: dict[tuple[str, Mode], Seen] = {}
    for fd in newest:
        path = procfs.descriptor(pid, fd)
        if path is None or path in output or not path.startswith("/") or _NO_FILES.match(path):
            continue
        about = procfs.fields(f"/proc/{pid}/fdinfo/{fd}")
        if "pos" in about and "flags" in about:
            key = path, _mode(int(about["flags"], 8))
            on_disk = None if key[1] == "read" else mounts.written_bytes(about.get("mnt_id", ""))
            found[key] = max(found.get(key, Seen(0, on_disk)), Seen(int(about["pos"]), on_disk))
    return found


def between(then: Mapping[tuple[str, Mode], Seen], now: Mapping[tuple[str, Mode], Seen]) -> tuple[OpenFile, ...]:
    """The files that are open `now`, those that moved most first. One that was opened meanwhile counts from its beginning."""
    files = []
    for (path, mode), seen in now.items():
        first = then.get((path, mode), Seen(0, seen.on_disk))
        known = seen.on_disk is not None and first.on_disk is not None
        to_disk = max(0, (seen.on_disk or 0) - (first.on_disk or 0)) if known else None
        files.append(OpenFile(path, mode, first.position, seen.position, to_disk))
    return tuple(sorted(files, key=lambda f: (-f.moved, f.path))[:MOST_FILES])


def _mode(flags: int) -> Mode:
    if flags & os.O_ACCMODE == os.O_RDONLY:
        return "read"
    return "append" if flags & os.O_APPEND else "write"


class _Mounts:
    """What the mounts that a process sees have written, each looked up once."""

    def __init__(self, process: str) -> None:
        self._process = process
        self._table: dict[str, list[str]] | None = None
        self._known: dict[str, int | None] = {}

    def written_bytes(self, mount: str) -> int | None:
        """By the number of the mount. None for what is neither a local disk nor NFS."""
        if mount not in self._known:
            self._known[mount] = self._written_bytes(mount)
        return self._known[mount]

    def _written_bytes(self, mount: str) -> int | None:
        if self._table is None:
            rows = map(str.split, procfs.text(f"{self._process}/mountinfo").splitlines())
            self._table = {row[0]: row for row in rows}
        row = self._table.get(mount)
        if row is None:
            return None
        if row[row.index("-") + 1].startswith("nfs"):
            return self._to_server(row[4])
        counters = procfs.text(f"/sys/dev/block/{row[2]}/stat").split()
        return SECTOR_BYTES * int(counters[_SECTORS_WRITTEN]) if len(counters) > _SECTORS_WRITTEN else None

    def _to_server(self, mounted_on: str) -> int | None:
        here = False
        for line in procfs.text(f"{self._process}/mountstats").splitlines():
            if line.startswith("device "):
                about = _NFS.match(line)
                here = about is not None and about[1] == mounted_on
            elif here and line.strip().startswith("bytes:"):
                return int(line.split()[1 + _WRITTEN_TO_SERVER])
        return None
