"""Who holds the file lock that a process waits for: the kernel's own list, /proc/locks (proc_locks(5)). 0.1 ms."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence

from ..model import LockHolder
from . import procfs

__all__ = ["holder", "holders", "locked_by_others", "named", "owner"]

LONGEST_COMMAND = 80


def holders(waiting: Iterable[int], table: str | None = None) -> dict[int, LockHolder]:
    """By the pid of each process that waits for a file lock; without those of unknown owners."""
    table = _table() if table is None else table
    found = {pid: holder(pid, table) for pid in waiting}
    return {pid: named(owner) for pid, owner in found.items() if owner is not None}


def holder(waiting: int, table: str) -> int | None:
    """The pid that holds what `waiting` waits for. `table` is /proc/locks: who waits stands below the lock, behind an arrow.

    None where nobody does, or where the owner is in another pid namespace (the kernel then writes 0 or -1).
    """
    owner = 0
    for line in table.splitlines():
        fields = line.split()
        if len(fields) < 5:
            continue
        if fields[1] != "->":
            owner = _number(fields[4])
        elif len(fields) > 5 and _number(fields[5]) == waiting:
            return owner if owner > 0 else None
    return None


def owner(about: os.stat_result, table: str | None = None, *, besides: int = 0) -> int | None:
    """The pid that has locked the file with that device and inode, also where nobody waits for it, `besides` one that may share the lock;
    None as of `holder`.
    """
    owners = _owners(_table() if table is None else table).get(_name(about), ())
    return next((pid for pid in owners if pid != besides), None)


def locked_by_others(pid: int) -> list[str]:
    """The paths of the files that `pid` has open and another process has locked. 10 us for each open file; hangs with a file system."""
    locked = {file for file, owners in _owners(_table()).items() if {*owners} - {pid}}
    found = []
    for number in procfs.descriptors(pid) if locked else ():
        path = procfs.descriptor(pid, int(number))
        if path is not None and path.startswith("/"):
            with contextlib.suppress(OSError):  # it has been closed meanwhile
                if _name(os.stat(f"/proc/{pid}/fd/{number}")) in locked:
                    found.append(path)
    return list(dict.fromkeys(found))


def _owners(table: str) -> Mapping[str, Sequence[int]]:
    """By file, the pids that have locked it, without those of other pid namespaces."""
    found: dict[str, list[int]] = {}
    for line in table.splitlines():
        fields = line.split()
        if len(fields) > 5 and fields[1] != "->" and _number(fields[4]):
            found.setdefault(fields[5], []).append(_number(fields[4]))
    return found


def _name(about: os.stat_result) -> str:
    """As the table calls a file."""
    return f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}:{about.st_ino}"


def _number(word: str) -> int:
    return int(word) if word.isdigit() else 0


def _table() -> str:
    try:
        with open("/proc/locks", encoding="ascii", errors="replace") as f:
            return f.read()
    except OSError:
        return ""  # a container may hide it; then nothing is known


def named(pid: int) -> LockHolder:
    process = procfs.stat(pid)
    if process is None:
        return LockHolder(pid, "")
    words = process.comm if process.state == "D" else " ".join(procfs.command(pid))[:LONGEST_COMMAND]
    return LockHolder(pid, words or process.comm)
