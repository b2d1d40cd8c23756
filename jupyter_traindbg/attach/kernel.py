"""The way into another running Jupyter kernel, busy or not: one silent request starts the agent, then its channels are left alone."""

from __future__ import annotations

import os
import time

from ..agent import rendezvous
from ..errors import CannotAttach, TargetGone
from ..language import text
from ..model import TargetName
from ..outside import procfs
from . import payload
from .base import Entered, Link
from .process import arrived, found


def links(named: TargetName, deadline_s: float) -> list[Link]:
    from .kernel_channel import find_connection_file, kernel_pid

    connection_file = find_connection_file(named.id)
    pid = kernel_pid(connection_file, deadline_s)
    return [Link(pid, lambda s: enter(connection_file, pid, s), started=procfs.start_ticks(pid))]


def enter(connection_file: str, pid: int, deadline_s: float) -> Entered:
    """Find the agent of the kernel or start one through its channels."""
    from .kernel_channel import run_in_kernel

    ends = time.monotonic() + deadline_s
    if (client := found(pid, deadline_s)) is not None:
        return Entered(client, "found running")
    directory = _prepare(pid)
    run_in_kernel(connection_file, payload.boot(directory) + "\nresult = {}\n", deadline_s)
    return Entered(arrived(pid, max(0.5, ends - time.monotonic())), "kernel")


def _prepare(pid: int) -> str:
    """Put the agent's archive where the kernel sees it; the directory's path as the kernel sees it."""
    root = f"/proc/{pid}/root"
    try:
        owner = os.stat(f"/proc/{pid}")
        directory = rendezvous.create(pid, owner.st_uid, owner.st_gid, root=root)
    except FileNotFoundError as e:
        raise TargetGone(text("the kernel's process {pid} has ended", pid=pid)) from e
    except OSError as e:
        raise CannotAttach(
            text("the agent cannot have its directory in process {pid}: {why}", pid=pid, why=e),
            text("attach as the kernel's user"),
        ) from e
    path = os.path.join(directory, payload.ARCHIVE)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as f:
        f.write(payload.archive())
        if owner.st_uid != os.getuid():
            os.fchown(f.fileno(), owner.st_uid, owner.st_gid)
    return directory[len(root) :]
