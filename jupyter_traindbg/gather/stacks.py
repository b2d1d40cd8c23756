"""The stacks of a rank, by its agent where one answers, else from outside."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from .. import evidence
from ..attach.base import Link
from ..attach.client import AgentClient
from ..errors import TraindbgError
from ..model import ProcessStacks, SourceLine
from ..outside import procfs, sources
from ..outside import stacks as outside
from ..tasks import Task

__all__ = ["QUICK_S", "lines", "of"]

QUICK_S = 1.0
"""How long an agent may take for stacks before we look from outside."""
AT_LEAST_S, LINES_S = 0.5, 1.0


def of(
    link: Link,
    agent: AgentClient | None,
    ends: float,
    *,
    children: bool,
    mute: Callable[[TraindbgError], None] = lambda why: None,
) -> list[ProcessStacks]:
    """All threads of the rank behind `link`, and with `children` those of the processes below it; until `ends` on the monotonic clock.

    `mute` is told why `agent` does not answer, where there is one: C code that holds the GIL shuts it out, and outside is seen what that
    does. 5 ms by an agent, about 20 ms a process from outside. Raises what `jupyter_traindbg.outside.stacks.dump` does.
    """
    if agent is not None:
        try:
            answer = agent.call("stacks", {}, min(QUICK_S, max(0.05, ends - time.monotonic())))
        except TraindbgError as e:
            mute(e)
        else:
            return [evidence.stacks(link.rank, link.pid, answer), *(_below(link, ends) if children else ())]
    left_s = max(AT_LEAST_S, ends - time.monotonic())
    return outside.dump(link.pid, link.rank, deadline_s=left_s, children=children, apart=link.others)


def lines(
    processes: Sequence[ProcessStacks], ends: float, text: Callable[[ProcessStacks, str], str | None] | None = None
) -> Mapping[str, SourceLine]:
    """The lines of the user's code that they stand at, by ``"FILE:LINE"``; those that come within a second: a disk may not answer.

    `text`: as for `jupyter_traindbg.outside.sources.read`.
    """
    reading = Task(lambda: sources.read(processes, text), "sources")
    return reading.in_time(min(ends, time.monotonic() + LINES_S)) or {}


def _below(link: Link, ends: float) -> list[ProcessStacks]:
    """The children's stacks; where there is no tool to look with, the children and the reason."""
    try:
        return outside.below(link.pid, link.rank, deadline_s=ends - time.monotonic(), apart=link.others)
    except TraindbgError as e:
        unseen = procfs.descendants(link.pid, apart=link.others)
        return [ProcessStacks(link.rank, p.pid, "child", "py-spy", (), note=e.cause) for p in unseen]
