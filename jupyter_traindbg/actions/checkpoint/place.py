"""Where a checkpoint goes: one directory that all ranks see as the same, and how it is seen from here."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import ActionRefused
from .ranks import name_ranks

NOTHING_WRITTEN = "nothing was written; "


@dataclass(frozen=True)
class Place:
    """`directory` as the job's processes see it; `here` as this process sees it, through ``/proc`` where the two differ."""

    directory: str
    here: str
    note: str = ""

    def partial(self, ident: str) -> str:
        """The directory that is written before it gets its name, as seen from here."""
        parent, name = os.path.split(self.here)
        return os.path.join(parent, f".{name}.partial-{ident}")

    def sweep(self, ident: str) -> str:
        """Remove what is left of an attempt whose writer has died; in words why that could not be, or nothing."""
        left = self.partial(ident)
        try:
            if os.path.lexists(left):
                shutil.rmtree(left)
        except OSError as e:
            return f"{left} could not be removed ({e.strerror}) and is no checkpoint"
        return ""


def find(directory: str, pids: dict[int, int]) -> Place:
    """The place for `directory`, which may be relative to our working directory or begin with ``~``. `pids` are the ranks' processes.

    Raises `ActionRefused` where the ranks do not all see the same directory there.
    """
    wanted = os.path.expanduser(directory)
    absolute = os.path.abspath(wanted)
    parent = os.path.dirname(absolute)
    seen = {rank: _identity(f"/proc/{pid}/root", parent) for rank, pid in pids.items()}
    ours = _identity("", parent)
    known = {rank: identity for rank, identity in seen.items() if identity is not None}
    if not known:
        return Place(
            absolute, absolute
        )  # no rank lets us look, or none has that directory: `begin` will say so in the job itself
    lowest = min(known)
    apart = [rank for rank, identity in known.items() if identity != known[lowest]]
    apart += [rank for rank in seen if rank not in known]
    if apart:
        raise ActionRefused(
            f"{parent} is not the same directory for {name_ranks([lowest])} and for {name_ranks(apart)} (containers, or not there)",
            f"{NOTHING_WRITTEN}name a directory on a file system that all ranks share",
        )
    if known[lowest] == ours:
        return Place(absolute, absolute)
    if not os.path.isabs(wanted):
        raise ActionRefused(
            f"the job runs in a container (or another mount namespace), where {parent} is not the directory that it is here",
            f"{NOTHING_WRITTEN}give DIR as an absolute path, as the job sees it",
        )
    here = f"/proc/{pids[lowest]}/root{absolute}"
    return Place(absolute, here, f"{absolute} is in the job's own file system (a container); from here it is {here}")


def _identity(root: str, path: str) -> tuple[int, int] | None:
    with contextlib.suppress(OSError):
        found = os.stat(root + path)
        return found.st_dev, found.st_ino
    return None


def sizes(place: Place, names: Sequence[str]) -> dict[str, int | None]:
    """The size of each file as it lies there now; None where there is none."""
    found: dict[str, int | None] = {}
    for name in names:
        try:
            found[name] = os.stat(os.path.join(place.here, name)).st_size
        except OSError:
            found[name] = None
    return found
