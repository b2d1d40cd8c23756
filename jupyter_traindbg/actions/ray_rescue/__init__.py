"""Rescue in a Ray cluster: interrupt a method, kill an actor, stop a job, release what a dead job left.

Each is a plan until it is confirmed, is done to what was named by its name or id (never by a pattern), and is verified by looking again.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence

from ...errors import UsageError
from ...language import text
from ...model import Finding, RayRescue, RayRescued, things
from . import interrupting, killing, leftovers, stopping
from .case import look

__all__ = ["rescue"]

CODE = "ray-rescue-not-done"


def rescue(
    address: str = "auto",
    *,
    interrupt: str | None = None,
    method: str | None = None,
    kill_actor: str | None = None,
    stop_job: str | None = None,
    release: Sequence[str] | None = None,
    yes: bool = False,
    timeout: float = 10.0,
) -> RayRescued:
    """Do one thing to the cluster at `address`, or with `yes` left out only say what would be done.

    `interrupt` and `kill_actor` name a worker by its name, its ``who`` as in ``Collector[17]``, its actor id or its pid; `method`
    interrupts only methods of that name. `stop_job` is an id or a submission id. `release` lists what dead jobs left; with `yes` it
    removes those that are named there, by id, and all of them where it is empty. None of these: what dead jobs left is listed.

    Costs one look at the cluster (0.1 s) before and some after. Raises `NoTarget` or `AmbiguousTarget` with what there is,
    `ActionRefused` where it must not be done, and what `jupyter_traindbg.outside.raystate` raises. What was tried and did not come true
    is in the result.
    """
    asked = [
        name
        for name, value in (("--interrupt", interrupt), ("--kill-actor", kill_actor), ("--stop-job", stop_job))
        if value
    ]
    if release is not None:
        asked.append("--leftovers")
    if len(asked) > 1:
        raise UsageError(
            text("{names} are two things", names=text(" and ").join(asked)),
            text("one rescue at a time: look at its result first"),
        )
    if method and not interrupt:
        raise UsageError(
            text("--method says which method to interrupt, and none is to be"), text("name the worker: --interrupt WHO")
        )
    began = time.monotonic()
    case = look(address, timeout)
    if interrupt:
        action, items = f"interrupt {interrupt}", interrupting.interrupt(case, interrupt, method or "", yes=yes)
    elif kill_actor:
        action, items = f"kill actor {kill_actor}", killing.kill(case, kill_actor, yes=yes)
    elif stop_job:
        action, items = f"stop job {stop_job}", stopping.stop(case, stop_job, yes=yes)
    else:
        action, items = "release what dead jobs left", leftovers.release(case, release, yes=yes)
    planned = any(item.state == "planned" for item in items)
    return RayRescued(
        target=address,
        address=str(case.address),
        action=action,
        done=yes and not planned,
        items=tuple(items),
        took_s=time.monotonic() - began,
        confirm=("--release --yes" if release is not None or not asked else "--yes") if planned else "",
        notes=tuple(case.notes),
        verdict=tuple(_findings(items)),
    )


def _findings(items: Sequence[RayRescue]) -> list[Finding]:
    """One for each that was tried and did not come true."""
    return [
        Finding(
            CODE,
            "warning",
            text("{who}: this was not done", who=item.who),
            who=things([item.who]),
            evidence=[
                text("wanted: {will}", will=item.will),
                text("now: {after}", after=item.after),
            ],
            cause=item.note,
            next_steps=[_next_step(item)],
        )
        for item in items
        if item.state == "not done"
    ]


def _next_step(item: RayRescue) -> str:
    if item.kind == "method":
        return text(
            "wait for the call that it stands in, or: `%ray_rescue --kill-actor {quote}`", quote=shlex.quote(item.who)
        )
    return text("look again with `traindbg ray-workers`, and ask again with a longer --timeout")
