"""Show where a step goes, by rank, and why the job is slow: what to mend first, by line, and what that would save."""

from __future__ import annotations

import time
from dataclasses import replace

from ..attach.base import end_calls
from ..diagnose import slow as rules
from ..gather import slow as gathering
from ..language import text
from ..model import Slow
from ..progress import SecondsBar
from ..tasks import Task
from .base import Ranks, Whom

WHOM = Whom.TOGETHER
STEPS, SECONDS = 20, 10.0
AROUND_S = 15.0
"""So much longer than the window it may take as a whole, where nothing else is said."""
TICK_S = 0.1
LATE_S = 1.0
"""The watching keeps its deadline itself; so much later nobody waits for it any more."""
LEAST_AROUND_S, SHARE = 4.0, 0.6
"""What entering all ranks and what follows the window may take, of a shorter `timeout`; at most that share of the time less."""


def deadline_s(*, seconds: float = SECONDS, **_: object) -> float:
    """What all of it may take where no `timeout` is given."""
    return seconds + AROUND_S


def ask(job: Ranks, *, steps: int = STEPS, seconds: float = SECONDS, timeout: float | None = None) -> Slow:
    """Where an average step of each rank goes, and what makes it slow: causes in the order of what mending them would save.

    Watches until `steps` whole ones have passed on a rank, 2 s at least and `seconds` at most; all of it ends within `timeout`, which is
    15 s more than that unless it is given, and of which the window takes three fifths or all but 4 s at most. What it watches: the training
    thread from its agent (up to 200 looks a second, at most a hundredth of the time), DataLoader workers by one call of py-spy a rank, CPU
    and waits from /proc, arrivals at collectives from the flight recorder. Nothing is traced, and nothing is left behind. Where no step
    comes, the job may hang, and the result says so. Raises why, where no rank can be asked.
    """
    began = time.monotonic()
    timeout = deadline_s(seconds=seconds) if timeout is None else timeout
    job.need_training(timeout)
    window_s = min(seconds, max(SHARE * timeout, timeout - LEAST_AROUND_S))
    window = _watch(job, gathering.Asked(steps, window_s, began + timeout - time.monotonic()))
    told = rules.judge(window.ranks, window.lines)
    return replace(told, silent=tuple(window.silent), taken_s=time.monotonic() - began)


def _watch(job: Ranks, asked: gathering.Asked) -> gathering.Window:
    """With a bar where it takes more than a moment: when that is full the window is over."""
    began = time.monotonic()
    watching = Task(lambda: _everywhere(job, asked), "slow")
    latest = began + asked.timeout_s + LATE_S
    try:
        with SecondsBar(text("watching steps"), asked.window_s) as bar:
            while not watching.wait(min(latest, time.monotonic() + TICK_S)) and time.monotonic() < latest:
                bar(time.monotonic() - began)
        return watching.result(latest)
    except KeyboardInterrupt:
        end_calls(job.open_links())
        raise


def _everywhere(job: Ranks, asked: gathering.Asked) -> gathering.Window:
    seen, silent = job.on_each_host(gathering.gather, asked.timeout_s, asked)
    return gathering.one_window(seen, job.host_clocks(list(seen)), silent)
