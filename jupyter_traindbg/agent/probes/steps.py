"""The recorded optimizer steps after a given one."""

from __future__ import annotations

import os
import sys
import threading
import time
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional

from .. import cuda, reachable
from ..recorder import FIELDS
from ..saying import Text, said
from ..steppers import is_step, stepping
from ..tensors import NO_TORCH
from ..training_thread import training_thread

if TYPE_CHECKING:
    from ..core import Agent

COST = "a microsecond a record; nothing on the training thread"


FEW = 3
MISSED_S = 2.0
GLANCES, GLANCE_S = 3, 0.005
CELLS = os.path.join("IPython", "core", "interactiveshell.py")


def run(
    agent: Agent,
    since: int = 0,
    last: int = 0,
    *,
    this_run: bool = False,
    deadline_s: float = 10.0,
    changes_since_s: Optional[float] = None,
) -> Dict[str, Any]:
    """`since`: only records after that step. `last`: at most that many, the newest (0: all). `this_run`: none of an earlier
    run in this process, see `Objects.run_began`. With `changes_since_s`, in seconds since
    the epoch, also what was changed, and saved, by our doing after that time.

    An agent that has just arrived waits for its first `FEW` steps, as long as that is worth while. ``meanwhile``: see `_meanwhile`.
    """
    ends = time.monotonic() + agent.safepoints.patience_s(deadline_s)
    while agent.safepoints.active and agent.recorder.step < FEW and time.monotonic() < ends:
        time.sleep(0.01)
    began = agent.objects.run_began() if this_run else 0
    records = agent.recorder.since(max(since, began - 1))
    note = "" if agent.recorder.step else _why_none(agent)
    changes = {} if changes_since_s is None else agent.doings(changes_since_s)
    if between_cells := _between_cells(agent):
        agent.recorder.rest()
    return {
        **changes,
        "fields": FIELDS,
        "records": records[-last:] if last else records,
        "step": agent.recorder.step,
        "meanwhile": _meanwhile(agent, explain=changes_since_s is None),
        "run_began": began,
        "note": note,
        "time_s": time.time(),
        "between_cells": between_cells,
    }


def _meanwhile(agent: Agent, *, explain: bool) -> Dict[str, Any]:
    """What was seen since the last step, or since the agent came: a step may take minutes, or never come.

    Microseconds. `explain`: where none has come yet, or for `MISSED_S`, also a look at the training thread's stack and a search for the
    objects; not for who asks several times a second.
    """
    recorder, safepoints = agent.recorder, agent.safepoints
    since_s = safepoints.since_last_step_s()
    explain = explain and safepoints.active and (since_s is None or since_s > MISSED_S)
    optimizers: List[Any] = agent.objects.find().optimizers() if explain and not recorder.step else []
    return {
        "for_s": time.time() - agent.started_s if since_s is None else since_s,
        "backwards": recorder.losses.backwards if recorder.step else recorder.backwards,
        "loss": next(iter(recorder.losses.last(1)), None),
        "scaler_steps": recorder.scaling.asked,
        "scaler_skipped": recorder.scaling.skipped,
        "optimizers": [type(optimizer).__name__ for optimizer in optimizers],
        "stepping": _stepping(agent) if explain else None,
        "evaluations": recorder.losses.evaluations,
    }


def _stepping(agent: Agent) -> Optional[str]:
    """The class of the optimizer whose ``step`` is under way, also where that began before we came; None where none is."""
    frame = sys._current_frames().get(training_thread(agent))
    for f, local in reachable.look_at_stack(frame) if frame is not None else ():
        if is_step(f):
            return stepping(local).__name__
    return None


def _between_cells(agent: Agent) -> bool:
    """Whether the training thread is a kernel's that waits for the next cell: no step is due then.

    Costs some microseconds; `GLANCES` times `GLANCE_S` where the kernel does something else than a cell: mostly it answers a page's
    message, which is over soon, but a button may train, too.
    """
    main = threading.main_thread().ident
    application = getattr(sys.modules.get("ipykernel.kernelapp"), "IPKernelApp", None)
    if getattr(application, "_instance", None) is None or agent.safepoints.thread_id not in (None, main):
        return False
    for _ in range(GLANCES):
        codes = list(_codes(sys._current_frames().get(main or 0)))
        if any(code.co_name == "run_code" and code.co_filename.endswith(CELLS) for code in codes):
            return False
        if [code.co_name for code in codes[:2]] == ["select", "_run_once"]:
            return True
        time.sleep(GLANCE_S)
    return False


def _codes(frame: Optional[FrameType]) -> Iterator[CodeType]:
    while frame is not None:
        yield frame.f_code
        frame = frame.f_back


def _why_none(agent: Agent) -> Text:
    if not agent.safepoints.active:
        return NO_TORCH
    graph = getattr(sys.modules.get("torch.cuda.graphs"), "CUDAGraph", None)
    if graph is None or not cuda.in_use() or not reachable.from_gc([graph]):
        return ""
    return said(
        "CUDA graphs are in use: a step that is replayed from one does not pass through optimizer.step(), and is not seen"
    )
