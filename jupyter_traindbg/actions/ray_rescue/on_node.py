"""What is done on the node itself: end a driver's process, and no other that has its number meanwhile."""

from __future__ import annotations

import os
import signal
import time

from ...errors import ActionRefused, TargetGone
from ...language import text
from ...outside import procfs

__all__ = ["command", "end"]

POLL_S = 0.05
SLACK_S = 5.0
"""By so much a cluster's clock and this machine's may differ."""
LONGEST = 160


def command(pid: int) -> str | None:
    """The command line of process `pid`; None where there is no such process."""
    process = procfs.stat(pid)
    return None if process is None or process.state in "ZX" else " ".join(procfs.command(pid))[:LONGEST]


def end(pid: int, job_began: float | None, grace_s: float) -> str:
    """End process `pid` by SIGTERM and, after `grace_s`, by SIGKILL; which it was.

    Raises `TargetGone` where it is gone, `ActionRefused` where it is younger than the job that it should be the driver of, or where it may
    not be signalled. Only that process is signalled, by a descriptor that cannot come to mean another one.
    """
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        raise TargetGone(text("process {pid} has ended", pid=pid)) from None
    try:
        process = procfs.stat(pid)
        if process is None:
            raise TargetGone(text("process {pid} has ended", pid=pid))
        if job_began is not None and time.time() - procfs.running_s(process) > job_began + SLACK_S:
            raise ActionRefused(
                text("process {pid} began after the job: it is another one", pid=pid),
                text("look again: the driver has ended"),
            )
        for number in (signal.SIGTERM, signal.SIGKILL):
            signal.pidfd_send_signal(handle, number)
            if _ended(pid, process.start_ticks, grace_s):
                return signal.Signals(number).name
    except PermissionError:
        raise ActionRefused(
            text("process {pid} belongs to somebody else", pid=pid), text("ask them, or root")
        ) from None
    except ProcessLookupError:
        return "it ended by itself"
    finally:
        os.close(handle)
    return "SIGKILL"


def _ended(pid: int, start_ticks: int, within_s: float) -> bool:
    ends = time.monotonic() + within_s
    while True:
        process = procfs.stat(pid)
        if process is None or process.state in "ZX" or process.start_ticks != start_ticks:
            return True
        if time.monotonic() > ends:
            return False
        time.sleep(POLL_S)
