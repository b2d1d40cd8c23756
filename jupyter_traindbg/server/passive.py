"""A job as it is seen without a part in it: from /proc, and from the agents that are in it already. Brings nothing into any process."""

from __future__ import annotations

import contextlib
import itertools
import math
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..attach.client import connect
from ..errors import TraindbgError
from ..model import StepNumber, Target
from ..outside import procfs
from ..step_numbers import step_title
from ..tasks import each

__all__ = ["pace", "seen"]

RANKS_READ = 8
"""Of a job with more, the first ones are read: they stand for the others, who wait for them in every collective."""
STEPS_READ = 60
CONNECT_S, ANSWER_S = 0.3, 0.5
QUIET_S = 10.0
LONGEST_PAUSES = 3.0
"""So many times its longest pause so far may a job be quiet, and at least `QUIET_S`."""


def seen(jobs: Mapping[str, Sequence[Target]]) -> dict[str, dict[str, Any]]:
    """By job: its memory, and, where it has agents, its step, loss and pace. `jobs` has the processes of each.

    About 1 ms a rank; all that do not answer cost `CONNECT_S` and `ANSWER_S` together.
    """
    asked = [(name, target) for name, targets in jobs.items() for target in targets[:RANKS_READ] if target.agent]
    answers: dict[str, list[dict[str, Any]]] = {}
    for (name, _), answer in each(asked, lambda one: _steps(one[1].pid), CONNECT_S + ANSWER_S):
        if answer is not None and not isinstance(answer, TraindbgError):
            answers.setdefault(name, []).append(answer)
    return {name: {**_memory(targets), **_progress(answers.get(name, []))} for name, targets in jobs.items()}


def _steps(pid: int) -> dict[str, Any] | None:
    """The latest records of an agent, None where there is none. Over a line that is hung up at once: we are never the client that keeps it
    there. Raises a `TraindbgError` where it has just ended or left, or cannot answer: what is known from outside remains.
    """
    client = connect(pid, CONNECT_S)
    if client is None:
        return None
    with contextlib.closing(client):
        answer = client.call("steps", {"last": STEPS_READ, "deadline_s": 0.0}, ANSWER_S)
    records = [dict(zip(answer["fields"], record, strict=True)) for record in answer["records"]]
    rests = answer.get("between_cells", False)  # an earlier version's agent does not say
    return {"step": answer["step"], "records": records, "between_cells": rests}


def _memory(targets: Sequence[Target]) -> dict[str, Any]:
    rss = [n for target in targets if isinstance(n := procfs.rss_bytes(target.pid), int)]
    return {"rss_bytes": sum(rss) if rss else None}


def _progress(answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    with_steps = [a for a in answers if a["records"]]
    if not with_steps:
        return {"step": None, "own_step": None, "at": "", "loss": [], "cuda_bytes": None, "state": None}
    behind = min(with_steps, key=lambda a: a["records"][-1]["time_s"])
    state = pace([r["time_s"] for r in behind["records"]], with_steps[0]["records"][-1]["loss"], time.time())
    if state["code"] == "stalled" and all(a["between_cells"] for a in answers):
        state = _state("waiting", "nothing trains now: the kernel runs no cell", state["since_s"])
    cuda = [a["records"][-1]["cuda_allocated_bytes"] for a in with_steps]
    known = [c for c in cuda if c is not None]
    last = min(with_steps, key=lambda a: a["step"])
    number = StepNumber(last["step"], last["records"][-1].get("optimizer_step"))
    return {
        "step": number.since_attach,
        "own_step": number.own,
        "at": step_title(number),
        "loss": [_number(r["loss"]) for r in with_steps[0]["records"]],
        "cuda_bytes": sum(known) if known else None,
        "state": state,
    }


def _number(value: Any) -> float | None:
    """JSON has no NaN; what is not a number is a gap in the line, and is told by the state."""
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None


def pace(times_s: Sequence[float], loss: Any, now_s: float) -> dict[str, Any]:
    """What the times of a job's latest steps say: ``training``, ``stalled`` or ``diverged``, in words."""
    quiet_s = max(0.0, now_s - times_s[-1])
    gaps = [b - a for a, b in itertools.pairwise(times_s) if b >= a]
    longest_s = max(gaps, default=0.0)
    if quiet_s > max(QUIET_S, LONGEST_PAUSES * longest_s):
        words = f"stalled: no step for {quiet_s:.0f} s, the longest pause before was {longest_s:.1f} s"
        return _state("stalled", words, times_s[-1])
    if loss is not None and _number(loss) is None:
        return _state("diverged", "the loss is no longer a number", times_s[-1])
    if not gaps or (usual_s := statistics.median(gaps)) <= 0:
        return _state("training", "training", times_s[0])
    rate = f"{1 / usual_s:.3g} steps/s" if usual_s < 1 else f"{usual_s:.3g} s a step"
    return _state("training", f"training, {rate}", times_s[0])


def _state(code: str, words: str, since_s: float) -> dict[str, Any]:
    return {"code": code, "words": words, "since_s": since_s}
