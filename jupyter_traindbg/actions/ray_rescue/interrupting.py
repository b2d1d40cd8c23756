"""Interrupt what a worker runs; the worker and its actor stay."""

from __future__ import annotations

import shlex
import time
from typing import Any

from ...attach.ray.hosts import open_hosts
from ...errors import ActionRefused, NoSafeThread, TargetGone, TraindbgError
from ...language import text
from ...model import RayRescue
from .case import Case, Worker

__all__ = ["interrupt"]

ASK = "jupyter_traindbg.attach.asking:ask"
METHOD = "interrupt"
RELAY_S = 0.5
WORKS_S = 4.0
"""What an interrupted method gets to end: ray asks for signals once a second, and its own ``finally`` takes what it takes."""


def interrupt(case: Case, words: str, method: str, *, yes: bool) -> list[RayRescue]:
    """Interrupt every method (those called `method`) that the worker named `words` runs. Brings an agent into it, as for a look."""
    worker = case.worker(words)
    if not worker.pid:
        raise ActionRefused(
            text("{who} has no process: it is {state}", who=worker.who, state=worker.state),
            text("there is nothing to interrupt"),
        )
    if worker.node_id is None:
        raise ActionRefused(
            text("the cluster does not say on which node {who} runs", who=worker.who), text("try again in a moment")
        )
    seen = _ask(case, worker, {"do": "look", "method": method})
    rows = seen["running"]
    if not seen["worker"]:
        raise ActionRefused(
            text("process {pid} is no worker of Ray's", pid=worker.pid),
            text("to end a driver, stop its job: --stop-job"),
        )
    if not rows:
        raise ActionRefused(
            text("{who} runs no method called {method}: there is nothing to interrupt", who=worker.who, method=method)
            if method
            else text("{who} runs no method: there is nothing to interrupt", who=worker.who),
            text("look with `traindbg ray-workers`"),
        )
    if any(row["in_init"] for row in rows):
        raise ActionRefused(
            text(
                "{who} is in its __init__, at {where}: an actor does not survive an interrupted __init__",
                who=worker.who,
                where=rows[0]["where"],
            ),
            text("to end it: `%ray_rescue --kill-actor {who}`", who=shlex.quote(words)),
        )
    if not yes:
        return [_planned(worker, row) for row in rows]
    began = time.monotonic()
    rows = _ask(case, worker, {"do": "interrupt", "method": method, "wait_s": min(WORKS_S, case.left_s - RELAY_S)})[
        "running"
    ]
    alive = _state_of(case, worker)
    return [_done(worker, row, alive, time.monotonic() - began) for row in rows]


def _ask(case: Case, worker: Worker, params: dict[str, Any]) -> Any:
    """The agent's answer; asked again where no thread of the process could be borrowed in that moment."""
    while True:
        try:
            return _asked(case, worker, params)
        except NoSafeThread:
            if time.monotonic() + RELAY_S > case.ends:
                raise


def _asked(case: Case, worker: Worker, params: dict[str, Any]) -> Any:
    hosts = open_hosts(case.address, case.cluster.nodes)
    try:
        left_s = case.left_s
        questions = {worker.pid: [(METHOD, params)]}
        answers = hosts.run(str(worker.node_id), ASK, questions, left_s, deadline_s=left_s + RELAY_S)
    finally:
        hosts.close()
    answer = answers[worker.pid]
    found = answer if isinstance(answer, TraindbgError) else answer[METHOD]
    if isinstance(found, TraindbgError):
        raise found
    return found


def _state_of(case: Case, worker: Worker) -> str:
    """The worker's state by the cluster's own word, after the fact."""
    if worker.actor_id is None:
        return ""
    try:
        case.again()
    except TraindbgError as e:
        return text("not known ({why})", why=e.cause)
    actor = case.actor(worker.actor_id)
    if actor is None:
        raise TargetGone(text("{who} is no longer in the cluster's list", who=worker.who))
    return actor.state


def _planned(worker: Worker, row: dict[str, Any]) -> RayRescue:
    will = f"end {row['method']} with an exception; its caller gets ray's TaskCancelledError"
    return RayRescue("method", worker.who, str(worker.pid), _at(row, row["where"]), will)


def _done(worker: Worker, row: dict[str, Any], alive: str, took_s: float) -> RayRescue:
    planned = _planned(worker, row)
    after = "ended" if row["ended"] else _at(row, row["after"])
    if alive:
        after += f"; the actor is {alive}"
    good = row["ended"] and alive in ("", "ALIVE")
    return RayRescue(
        "method",
        planned.who,
        planned.ident,
        planned.before,
        planned.will,
        "verified" if good else "not done",
        after,
        took_s,
        row["note"] or row["how"],
    )


def _at(row: dict[str, Any], where: str | None) -> str:
    method = str(row["method"])
    return where if where and where.endswith(method) else f"{method} at {where}" if where else method
