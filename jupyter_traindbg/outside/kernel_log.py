"""What the kernel has said of processes: killed for want of memory, segmentation faults. Read only where this user may."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Killed", "about", "killed_for_memory", "read", "since"]

_RECORDS = 100_000
"""More than the largest ring buffer holds."""
_DMESG_S = 1.0
_KILLED = re.compile(r"[Kk]illed process (\d+) \((.*?)\)")
_STAMP = re.compile(r"^\[\s*(\d+\.\d+)\] ?")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_APART_S, _APART = 1.0, 2e-4
"""How far the clock of the kernel's log may be from the one that processes are dated by: it is not steered, so it runs fast or slow by
some 1e-4, and the last tick counts whole.
"""


@dataclass(frozen=True)
class Killed:
    """The OOM killer's victim, as the kernel numbers and names it; ``at_s`` counts from boot. ``line`` is the kernel's."""

    pid: int
    name: str
    at_s: float
    line: str


def read() -> list[tuple[float, str]] | None:
    """The kernel's messages, each with its time in seconds since boot; None where they are closed to this user. Milliseconds."""
    return _from_device() or _from_dmesg()


def since(start_ticks: int | None, messages: Iterable[tuple[float, str]]) -> list[tuple[float, str]]:
    """The messages that are not older than a process (see `procfs.Process.start_ticks`); all of them where that is None.

    The log's clock stands still while the machine sleeps, the one of processes does not.
    """
    if start_ticks is None:
        return list(messages)
    awake_s = time.clock_gettime(time.CLOCK_MONOTONIC)
    slept_s = time.clock_gettime(time.CLOCK_BOOTTIME) - awake_s
    from_s = start_ticks / _TICKS_PER_S - slept_s - _APART_S - _APART * awake_s
    return [(at_s, line) for at_s, line in messages if at_s >= from_s]


def killed_for_memory(messages: Iterable[tuple[float, str]]) -> list[Killed]:
    """The processes that were killed for want of memory, oldest first."""
    return [Killed(int(m.group(1)), m.group(2), at, line) for at, line in messages if (m := _KILLED.search(line))]


def about(pid: int, messages: Iterable[tuple[float, str]]) -> list[str]:
    """The kernel's lines on the process `pid`: ``python[1234]: segfault at ...`` and the like."""
    named = re.compile(rf"\[{pid}\]|[Pp]rocess {pid}\b")
    return [line for _, line in messages if named.search(line)]


def _from_device() -> list[tuple[float, str]] | None:
    try:
        fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    found = []
    try:
        for _ in range(_RECORDS):
            try:
                record = os.read(fd, 8192).decode(errors="replace")
            except BrokenPipeError:
                continue  # that record was overwritten while we read; the next one is there
            head, _, line = record.partition(";")
            found.append((int(head.split(",")[2]) / 1e6, line.split("\n", 1)[0]))
    except BlockingIOError:
        return found  # that was the last one
    except OSError:
        return None  # it may be opened here, and not be read
    finally:
        os.close(fd)
    return found


def _from_dmesg() -> list[tuple[float, str]] | None:
    tool = shutil.which("dmesg")
    if tool is None:
        return None
    try:
        said = subprocess.run([tool], stdin=subprocess.DEVNULL, capture_output=True, timeout=_DMESG_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if said.returncode:
        return None
    rows = (line.decode(errors="replace") for line in said.stdout.splitlines())
    return [(float(m.group(1)), line[m.end() :]) for line in rows if (m := _STAMP.match(line))]
