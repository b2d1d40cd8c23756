"""The way into a plain process, by pid: the agent that runs there already, else injection."""

from __future__ import annotations

import logging
import os
import time

from ..agent import rendezvous
from ..errors import DeadlineExceeded, GilHeld, TargetGone
from ..language import text
from ..model import TargetName
from ..outside import procfs
from .base import Entered, Link
from .client import AgentClient, connect

log = logging.getLogger(__name__)


def links(named: TargetName, deadline_s: float) -> list[Link]:
    from .discover import rank_of

    pid = int(named.id)
    who = rank_of(pid)
    return [link(pid, numbered=False) if who is None else link(pid, who.rank or 0, who.world_size or 1)]


def link(pid: int, rank: int = 0, world_size: int = 1, *, numbered: bool = True) -> Link:
    """A link to process `pid`, not entered yet; `numbered`: see `Link`. Raises `TargetGone`."""
    started = procfs.start_ticks(pid)
    if started is None:
        raise TargetGone(text("there is no process {pid}", pid=pid))
    return Link(pid, lambda deadline_s: enter(pid, deadline_s), rank, world_size, started=started, numbered=numbered)


def enter(pid: int, deadline_s: float) -> Entered:
    """Find the agent of `pid` or inject one. Raises `GilHeld` where it waits inside for the GIL."""
    ends = time.monotonic() + deadline_s
    if (client := found(pid, deadline_s)) is not None:
        return Entered(client, "found running")
    log.debug("process %d: no agent is there, so one is brought in", pid)
    from . import payload
    from .inject import inject

    try:
        directory = rendezvous.directory(pid, os.stat(f"/proc/{pid}").st_uid)
    except FileNotFoundError as e:
        raise TargetGone(text("process {pid} has just ended", pid=pid)) from e
    injected = inject(pid, {payload.ARCHIVE: payload.archive()}, payload.boot(directory), deadline_s)
    if injected.stage != "done":
        raise GilHeld(
            text(
                "C code in process {pid} holds the GIL; the agent waits inside and answers once it is released", pid=pid
            )
        )
    return Entered(arrived(pid, max(0.5, ends - time.monotonic())), "injected")


def found(pid: int, deadline_s: float) -> AgentClient | None:
    """The agent that runs in `pid`, None where there is none. Raises `GilHeld` where it is there and cannot answer."""
    try:
        return connect(pid, min(1.0, deadline_s))
    except DeadlineExceeded as e:
        raise GilHeld(text("process {pid} has an agent that does not answer: C code holds the GIL", pid=pid)) from e


def arrived(pid: int, deadline_s: float) -> AgentClient:
    """The agent of `pid`, which is just starting."""
    ends = time.monotonic() + deadline_s
    while time.monotonic() < ends:
        if (client := connect(pid, max(0.1, ends - time.monotonic()))) is not None:
            return client
        time.sleep(0.002)
    raise DeadlineExceeded(
        text("the agent in process {pid} did not come up in {deadline_s:.1f} s", pid=pid, deadline_s=deadline_s)
    )
