"""A question of deadlines.py: of whom, what is expected, by when; and how a process is brought to where it cannot answer."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from common import timed_ms

import traindbg
from jupyter_traindbg.errors import TraindbgError
from jupyter_traindbg.outside import procfs


@dataclass(frozen=True)
class Question:
    """What is asked, how, and when the answer has to be there."""

    what: str
    deadline_s: float | None
    ask: Callable[[], float]
    """Asks once; after how many seconds the answer came."""
    goal_s: float | None = None
    """None for a tenth over the deadline."""


def s(work: Callable[[], object]) -> Callable[[], float]:
    """How long `work` takes, in seconds."""
    return lambda: timed_ms(work) / 1e3


def refused(
    by: type[TraindbgError] | tuple[type[TraindbgError], ...], work: Callable[[], object]
) -> Callable[[], float]:
    """How long it takes until `work` raises that; it is no answer where it does not."""

    def attempt() -> None:
        try:
            work()
        except by:
            return
        raise SystemExit("an answer came where there can be none")

    return s(attempt)


def sure(true: object, what: str) -> None:
    if not true:
        raise SystemExit(f"the scene is not as it should be: {what}")


def until(true: Callable[[], object], what: str, limit_s: float = 60.0) -> None:
    ends = time.monotonic() + limit_s
    while not true():
        sure(time.monotonic() < ends, what)
        time.sleep(0.01)


def stop(pid: int) -> None:
    """Stop a process, and wait until it has stopped."""
    os.kill(pid, signal.SIGSTOP)
    until(lambda: (seen := procfs.stat(pid)) is not None and seen.state == "T", "stopped")


def halted(job: traindbg.Job, pid: int, ask: Callable[[], float]) -> Callable[[], float]:
    """Each time `pid`, of `job`, goes on until it answers, and is stopped anew: what was asked before does not queue up."""

    def again() -> float:
        os.kill(pid, signal.SIGCONT)
        until(lambda: pid in [rank.pid for rank in job.lr(timeout=30).ranks], "it answers again")
        stop(pid)
        try:
            return ask()
        finally:
            os.kill(pid, signal.SIGCONT)

    return again


def since_killed(pid: int, ask: Callable[[], object]) -> float:
    """How long after `pid` is killed, half a second from now, `ask` comes back."""
    ended: list[float] = []

    def kill() -> None:
        ended.append(time.perf_counter())
        os.kill(pid, signal.SIGKILL)

    threading.Timer(0.5, kill).start()
    ask()
    sure(ended, "it was asked when it was killed")
    return time.perf_counter() - ended[0]
