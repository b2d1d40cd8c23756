"""A Ray job asked by one of its processes: its driver, which waits for the others, or one of its workers. What is meant is all of it."""

from __future__ import annotations

import dataclasses
import time

from .. import evidence
from ..attach.base import Link, Part
from ..diagnose.ray.merged import alone, asked_of, with_driver
from ..errors import NoTarget, TraindbgError
from ..language import text
from ..model import Diagnosis
from ..questions.base import Ranks
from ..questions.diagnose import of_ranks
from ..tasks import Task
from .job import connect

__all__ = ["diagnose", "need_training"]

OWN_SHARE = 0.75
"""Of the time: a driver is looked at by itself once, as a rule, and not again, as its wait tells nothing."""
LOOK_S = 0.5
"""How long a driver is given for a first step."""


def diagnose(job: Ranks, part: Part, timeout: float) -> Diagnosis:
    """The diagnosis of the whole job that `job`, one process, is a `part` of; of this process alone where Ray cannot be asked.

    Costs what that of the whole costs. A driver is looked at by itself beside it: it may train, or hang by itself. Raises what both raise.
    """
    began = time.monotonic()
    ends = began + timeout
    own = Task(lambda: of_ranks(job, timeout=OWN_SHARE * timeout), "driver") if part.what == "driver" else None
    judged = _of_all(part, timeout)
    if isinstance(judged, TraindbgError):
        mine = of_ranks(job, timeout=max(1.0, ends - time.monotonic())) if own is None else own.result(ends)
        judged = alone(mine, part.whole, judged.cause)
    else:
        both = judged if own is None else with_driver(judged, own.quietly(ends))
        judged = asked_of(both, job.name, part.whole, driver=own is not None)
    return dataclasses.replace(judged, taken_s=time.monotonic() - began)


def need_training(link: Link, part: Part, timeout: float) -> None:
    """Raise `NoTarget`, with the way that works, where the driver behind `link` has no optimizer and makes no backward pass."""
    asked = {"since": 0, "last": 1, "this_run": False, "deadline_s": min(LOOK_S, timeout)}
    seen = evidence.steps(link.rank, link.pid, link.call("steps", asked, timeout))
    meanwhile = seen.meanwhile
    if seen.steps or (meanwhile is not None and (meanwhile.backwards or meanwhile.optimizers)):
        return
    raise NoTarget(
        text("process {pid} is the driver of a Ray job and trains nothing itself (yet)", pid=link.pid),
        text("name the whole job, with its workers: {whole}", whole=part.whole),
    )


def _of_all(part: Part, timeout: float) -> Diagnosis | TraindbgError:
    ends = time.monotonic() + timeout
    try:
        whole = connect(part.whole, timeout)
        try:
            if not whole.info.running:
                return TraindbgError(
                    text("{whole} has ended", whole=part.whole), ""
                )  # a process may outlive its job: a kernel, say
            return whole.diagnose(timeout=max(1.0, ends - time.monotonic()))
        finally:
            whole.close()
    except TraindbgError as e:
        return e
