"""Records some steps by torch's own profiler, and looks at the training thread meanwhile; all of it comes out again."""

from __future__ import annotations

import base64
import os
import zlib
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

from .. import cuda
from ..own_count import own_count
from ..profiling import Profiling, claimed
from ..recorder import FIELDS
from ..saying import Text, said
from ..tensors import NO_TORCH
from ..timed_looks import TimedLooks

if TYPE_CHECKING:
    from ..core import Agent

COST = (
    "0.5 to 1 us an operator in the steps that are recorded; then the training stands still for some 20 ms for each MB of "
    "the trace; 1 to 3 % of the time for the looks"
)
MOST_LOOKS = 6000
BEFORE = 64
"""So many steps from before are told, too: how long one takes that nobody records."""
MOST_BYTES = 1 << 29
"""A trace that is longer stays here: no viewer opens it."""
ENDS_S = 0.5
"""How long the end of the step under way is waited for where the time is up."""


def run(
    agent: Agent, steps: int = 5, least_s: float = 2.0, window_s: float = 30.0, after_step: int = 0
) -> Dict[str, Any]:
    """Looks for `least_s` at least, until `steps` were recorded or `window_s` have passed. 0 `steps`: nobody records.

    `after_step`: recording begins behind that step, by the agent's count, so that all ranks record the same ones. The looks are told as by
    `TimedLooks.told`, ``records`` are the steps of the window and before it. ``recorded``: how many ``steps`` behind step ``first``, when
    (Unix time), by which process and thread as it calls them itself, what starting, stopping and writing took, and ``trace``: the Chrome
    trace, packed by zlib, as base64; None where there is none, and ``note`` says why.
    """
    looks = TimedLooks(agent, MOST_LOOKS)
    note: Text = _why_not(agent) if steps else ""
    if steps and not note:
        profiling = Profiling(agent, steps)
        _record(agent, profiling, looks, least_s=least_s, window_s=window_s, after_step=after_step)
        recorded = _recorded(agent, profiling)
    else:
        looks.look(lambda passed_s: passed_s < min(least_s, window_s))
        recorded = {"steps": 0, "note": note}
    return {
        **looks.told(),
        "fields": FIELDS,
        "records": agent.recorder.since(max(0, looks.first - BEFORE)),
        "recorded": recorded,
    }


def _why_not(agent: Agent) -> Text:
    if not agent.safepoints.active:
        return NO_TORCH
    if agent.profiling is not None and not agent.profiling.over.is_set():
        return said("somebody else is recording steps of this process")
    return claimed()


def _record(
    agent: Agent, profiling: Profiling, looks: TimedLooks, *, least_s: float, window_s: float, after_step: int
) -> None:
    agent.profiling = profiling

    def going(passed_s: float) -> bool:
        return passed_s < (least_s if profiling.over.is_set() else window_s)

    with agent.safepoints.meanwhile(profiling.begin, lambda: agent.recorder.step >= after_step):
        looks.look(going)
    if not profiling.over.is_set():
        profiling.end(ENDS_S)


def _recorded(agent: Agent, profiling: Profiling) -> Dict[str, Any]:
    note, trace = profiling.note, None
    if profiling.first is None:
        agent.profiling, note = None, note or said("no step came meanwhile")
    elif not profiling.over.is_set():
        profiling.forget()
        note = said("the recorded steps were not over in time; the profiler comes out at the end of the step under way")
    else:
        trace, why = _written(agent, profiling)
        note = note or why
        agent.profiling = None
    return {
        "steps": profiling.steps if trace is not None else 0,
        "first": profiling.first,
        "own": None if profiling.first is None else own_count(agent.recorder, profiling.first),
        "began_s": profiling.began_s,
        "ended_s": profiling.ended_s,
        "start_s": profiling.start_s,
        "stop_s": profiling.stop_s,
        "write_s": profiling.write_s,
        "pid": agent.pid,
        "thread": profiling.thread,
        "cuda": cuda.in_use(),
        "trace": trace,
        "note": note,
    }


def _written(agent: Agent, profiling: Profiling) -> Tuple[Optional[str], Text]:
    """The trace, packed, or why there is none."""
    path = os.path.join(agent.directory, "trace.json")
    try:
        if not profiling.write(path):
            return None, said("no whole step was recorded")
        size = os.path.getsize(path)
        if size > MOST_BYTES:
            return None, said(
                "the trace has {mb} MB, too much for a viewer: record fewer steps", mb=f"{size / 1e6:.0f}"
            )
        with open(path, "rb") as f:
            return base64.b64encode(zlib.compress(f.read(), 1)).decode(), ""
    except OSError as e:
        return None, said(
            "the trace could not be written to {place}: {why}", place=agent.directory, why=e.strerror or str(e)
        )
    finally:
        if os.path.exists(path):
            os.unlink(path)
