"""How much memory a process may have at most: what its machine has, or less where a control group bounds it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from . import procfs

__all__ = ["group_folders", "limit_bytes"]

PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
_LIMITS = ("memory.max", "memory.limit_in_bytes")
"""Of version 2 and of version 1, which says 2^63 less a page where there is none."""


def limit_bytes(pid: int) -> int | None:
    """The least of what the machine has and what the control groups of `pid`, and those that they are in, allow; None where /proc does
    not tell. Swap is not counted.
    """
    machine = procfs.fields(str(PROC / "meminfo")).get("MemTotal", "").split()
    known = [int(machine[0]) * 1024] if machine else []
    known += [limit for folder in group_folders(pid) for limit in _limits(folder)]
    return min(known, default=None)


def group_folders(pid: int) -> Iterator[Path]:
    """Where the files of the control groups of `pid` that count its memory would be, of either version; in a container they may be
    nearer to the root. Nothing where they are outside of our own container.
    """
    for line in procfs.text(str(PROC / str(pid) / "cgroup")).splitlines():
        number, controllers, path = line.split(":", 2)
        bases = (GROUPS, GROUPS / "unified") if number == "0" else (GROUPS / "memory",)
        if ".." not in path.split("/") and (number == "0" or "memory" in controllers.split(",")):
            yield from (base / path.lstrip("/") for base in bases)


def _limits(folder: Path) -> Iterator[int]:
    """What a group may have, and each one round it."""
    for at in (folder, *folder.parents):
        if not at.is_relative_to(GROUPS):
            return
        for name in _LIMITS:
            if (words := procfs.text(str(at / name)).strip()).isdigit():  # "max": as much as there is
                yield int(words)
