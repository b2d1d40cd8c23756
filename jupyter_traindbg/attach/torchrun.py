"""The way into all ranks of a launcher on this host: torchrun, accelerate launch, mp.spawn."""

from __future__ import annotations

from ..errors import NoTarget, TargetGone, UnknownTarget
from . import process
from .base import Link
from .discover import launcher_ranks

SCHEME = "torchrun:"


def matches(text: str) -> bool:
    return text.startswith(SCHEME)


def links(text: str, deadline_s: float) -> list[Link]:
    pid = text[len(SCHEME) :]
    if not pid.isdigit():
        raise UnknownTarget(
            f"{text!r} does not end in the launcher's pid", "write torchrun:PID; `traindbg targets` shows it"
        )
    ranks = launcher_ranks(int(pid))
    if not ranks:
        process.link(int(pid))  # raises where the launcher itself is gone
        raise NoTarget(
            f"process {pid} has no training ranks below it",
            "they may not have started yet; `traindbg targets` lists what is seen",
        )
    found = []
    for n, rank in enumerate(ranks):
        try:
            found.append(process.link(rank.pid, n if rank.rank is None else rank.rank, rank.world_size or len(ranks)))
        except TargetGone:
            continue  # it ended while we looked; the others remain
    return found
