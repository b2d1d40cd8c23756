"""Who writes to a log: the processes that have it open for writing; where that is `tee`, those at the other end of its pipe."""

from __future__ import annotations

import os

from .. import procfs

__all__ = ["writers"]

_WRITES = os.O_WRONLY | os.O_RDWR


def writers(path: str) -> list[int]:
    """The pids, in ascending order; those behind a pipe instead of the `tee` that they write through.

    Of other users' processes only root sees the descriptors. Some 20 us for each descriptor on this machine; touches no disk but that
    of `path`.
    """
    wanted = os.path.realpath(path)
    direct = [pid for pid in procfs.processes() if _has_open(pid, wanted)]
    found: set[int] = set()
    for pid in direct:
        pipe = procfs.descriptor(pid, 0) or ""
        behind = [p for p in procfs.processes() if p != pid and _has_open(p, pipe)] if pipe.startswith("pipe:") else []
        found.update(behind or [pid])
    return sorted(found - {os.getpid()})


def _has_open(pid: int, target: str) -> bool:
    """For writing, as standard output, standard error or any other descriptor."""
    return any(procfs.descriptor(pid, fd) == target and _writes(pid, fd) for fd in procfs.descriptors(pid))


def _writes(pid: int, fd: str) -> bool:
    try:
        with open(f"/proc/{pid}/fdinfo/{fd}", encoding="ascii") as f:
            flags = next((line.split()[1] for line in f if line.startswith("flags:")), "0")
    except OSError:
        return False
    return bool(int(flags, 8) & _WRITES)
