"""The way into all ranks of a launcher on this host: torchrun, accelerate launch, mp.spawn."""

from __future__ import annotations

from ..errors import NoTarget, TargetGone, UnknownTarget
from ..language import text
from ..model import TargetName
from . import process
from .base import Link
from .discover import launcher_ranks


def links(named: TargetName, deadline_s: float) -> list[Link]:
    pid = named.pid
    if pid is None:
        raise UnknownTarget(
            text("{named!r} does not end in the launcher's pid", named=str(named)),
            text("write torchrun:PID; `traindbg targets` shows it"),
        )
    ranks = launcher_ranks(pid)
    if not ranks:
        process.link(pid)  # raises where the launcher itself is gone
        raise NoTarget(
            text("process {pid} has no training ranks below it", pid=pid),
            text("they may not have started yet; `traindbg targets` lists what is seen"),
        )
    found = []
    for n, rank in enumerate(ranks):
        try:
            found.append(process.link(rank.pid, n if rank.rank is None else rank.rank, rank.world_size or len(ranks)))
        except TargetGone:
            continue  # it ended while we looked; the others remain
    return found
