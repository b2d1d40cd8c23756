"""Kill an actor, whoever made it and whether it has a name: the GCS takes its id."""

from __future__ import annotations

import time

from ...attach.ray import hosts as ways
from ...errors import ActionRefused
from ...language import text
from ...model import RayRescue
from .case import Case

__all__ = ["kill", "killed"]

CHANGE = "jupyter_traindbg.outside.raystate.gcs:change"


def kill(case: Case, words: str, *, yes: bool) -> list[RayRescue]:
    """Kill the actor named `words` for good: also one that may restart is not started again."""
    worker = case.worker(words)
    if worker.actor_id is None:
        raise ActionRefused(
            text("{who} is no actor but a task", who=worker.who),
            text("interrupt it: --interrupt, or stop its job: --stop-job"),
        )
    if worker.state == "DEAD":
        raise ActionRefused(text("{who} is dead already", who=worker.who), text("`traindbg ray-workers` says of what"))
    before = f"{worker.state}, pid {worker.pid}" if worker.pid else worker.state
    will = "kill it for good: its process ends, its calls fail with ray's ActorDiedError, it is not restarted"
    planned = RayRescue("actor", worker.who, worker.actor_id, before, will)
    return [killed(case, planned)] if yes else [planned]


def killed(case: Case, planned: RayRescue) -> RayRescue:
    """Kill the actor of `planned` and wait until the cluster has it down as dead."""
    began = time.monotonic()
    fields = {"actor_id": bytes.fromhex(planned.ident), "force_kill": True, "no_restart": True}
    ways.ask(
        case.address, CHANGE, case.address, "ActorInfo", "KillActorViaGcs", fields, case.left_s, deadline_s=case.left_s
    )

    def is_dead(_: object) -> bool:
        actor = case.actor(planned.ident)
        return actor is None or actor.state == "DEAD"

    good = case.until(is_dead)
    actor = case.actor(planned.ident)
    after = "DEAD" if good else "not known" if actor is None else actor.state
    return RayRescue(
        planned.kind,
        planned.who,
        planned.ident,
        planned.before,
        planned.will,
        "verified" if good else "not done",
        after,
        time.monotonic() - began,
        "" if good else "the cluster was told, and has not done it in time",
    )
