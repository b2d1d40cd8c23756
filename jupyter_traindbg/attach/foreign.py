"""What may be trainings of other users: all that can be seen of them is a command line, and how much memory they take."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Literal

from ..command_lines import connection_file, is_helper, is_launcher, kernel_name, program, written
from ..model import NotAvailable, Target, TargetName
from ..outside import procfs
from ..outside.procfs import Process
from . import access

__all__ = ["may_see", "targets"]

_LOADED_BYTES = 150 << 20
"""A Python that has imported torch holds 200 MB at least."""


def may_see(pid: int) -> bool:
    """Whether the process is this user's, or this user is root."""
    try:
        return os.geteuid() == 0 or os.stat(f"/proc/{pid}").st_uid == os.geteuid()
    except OSError:
        return False


def targets(table: Mapping[int, Process], stuck: Container[int]) -> list[Target]:
    """The likely trainings among the processes of `table` that are another user's, each with the reason why it is closed, by pid.

    A launcher stands for its ranks, a program for the processes that multiprocessing started for it. None of `stuck`, which lie in
    uninterruptible sleep. Empty for root, who sees all. 20 us a process.
    """
    closed = [p for pid, p in table.items() if pid not in stuck and not may_see(pid)]
    likely = {p.pid: command for p in closed if (command := _likely_training(p)) is not None}
    return [
        _target(table[pid], command)
        for pid, command in sorted(likely.items())
        if not (
            _serves(pid, likely, table) or any(is_launcher(likely.get(above, ())) for above in _ancestors(pid, table))
        )
    ]


def _serves(pid: int, likely: Mapping[int, Sequence[str]], table: Mapping[int, Process]) -> bool:
    """Whether one of them was started by another one's multiprocessing."""
    if table[pid].parent not in likely:
        return False
    return procfs.forked_from_parent(pid, table) or any("multiprocessing" in word for word in likely[pid])


def _ancestors(pid: int, table: Mapping[int, Process]) -> Iterator[int]:
    """The processes above `pid`, the nearest first."""
    while (process := table.get(pid)) is not None and process.parent > 1:
        pid = process.parent
        yield pid


def _target(process: Process, command: Sequence[str]) -> Target:
    name, kind = _name_of(process.pid, command)
    user = procfs.user(procfs.uid(process.pid))
    return Target(
        name=name,
        pid=process.pid,
        kind=kind,
        command=written(command),
        user=user,
        running_s=procfs.running_s(process),
        framework=NotAvailable(f"its memory map is closed to all but {user}"),
        why_not=access.not_permitted(process.pid).cause,
    )


def _likely_training(process: Process) -> Sequence[str] | None:
    """The command line of a process that cannot be looked into, where it may be a training: a launcher, or a Python that holds as much
    memory as one that has loaded a deep learning library at least (torch alone: 200 MB).
    """
    if process.state in "ZX" or process.comm == "pt_data_worker":
        return None
    command = procfs.command(process.pid)
    if not command or is_helper(command):
        return None
    if is_launcher(command):
        return command
    runs = "python" in os.path.basename(command[0]) and program(command)[0]
    return command if runs and procfs.rss_bytes(process.pid) >= _LOADED_BYTES else None


def _name_of(pid: int, command: Sequence[str]) -> tuple[str, Literal["launcher", "kernel", "process"]]:
    """What a target is called, and its kind, by nothing but its command line."""
    if is_launcher(command):
        return str(TargetName("launcher", str(pid))), "launcher"
    file = connection_file(command)
    return (str(pid), "process") if file is None else (str(TargetName("kernel", kernel_name(file))), "kernel")
