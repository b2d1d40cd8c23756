"""The cluster that is to be rescued: what it says of itself, and whom a person's words name in it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ...errors import AmbiguousTarget, NoTarget, TraindbgError
from ...language import text
from ...model import NotAvailable, RayActor, RayCluster, RayTask, parse_cluster
from ...outside import raystate
from ...outside.raystate import ClusterAddress
from ...ray.workers import naming

__all__ = ["Case", "Worker", "look"]

LOOK_S = 5.0
POLL_S = 0.1
SHORTEST_ID = 6
"""So much of an id at least, where it is not given whole."""
SHOWN = 12


@dataclass
class Case:
    """One look at a cluster, and until when the rescue has time. `again` looks anew."""

    address: ClusterAddress
    cluster: RayCluster
    job: str | None
    ends: float
    notes: list[str] = field(default_factory=list)

    @property
    def left_s(self) -> float:
        return max(0.3, self.ends - time.monotonic())

    def again(self) -> RayCluster:
        self.cluster = raystate.read(self.address, None, min(LOOK_S, self.left_s))
        return self.cluster

    def until(self, condition: Callable[[RayCluster], bool]) -> bool:
        """Look again until `condition` holds, or the time is up; whether it does."""
        while True:
            try:
                if condition(self.again()):
                    return True
            except TraindbgError as e:
                why = text("a look at the cluster failed: {why}", why=e.cause)
                self.notes = [*[note for note in self.notes if note != why], why]
            if time.monotonic() > self.ends:
                return False
            time.sleep(POLL_S)

    def actor(self, actor_id: str | None) -> RayActor | None:
        return next((actor for actor in self.cluster.actors if actor.actor_id == actor_id), None)

    def worker(self, words: str) -> Worker:
        """Whom `words` name: a name, a ``who``, an actor id, a pid. Raises `NoTarget` and `AmbiguousTarget`, never guesses."""
        found = [worker for worker in self.workers() if worker.is_called(words)]
        live = [worker for worker in found if worker.pid or worker.state != "DEAD"]
        found = live or found
        if len(found) == 1:
            return found[0]
        if found:
            raise AmbiguousTarget(
                text("{words} names {count} workers: {workers}", words=words, count=len(found), workers=_listed(found)),
                text("give the actor's id, or name its job: JOB@ADDRESS"),
            )
        there = [worker for worker in self.workers() if worker.state != "DEAD"]
        raise NoTarget(
            text("no worker is called {words}", words=words),
            text(
                "there are {workers}; `%ray_workers` shows them",
                workers=naming.together((w.who for w in there), SHOWN),
            )
            if there
            else text("the cluster has none"),
        )

    def workers(self) -> list[Worker]:
        """The actors of the job that was named, or of all jobs, and the tasks that run."""
        who = naming.names(self.cluster, self.job)
        found = [Worker.of_actor(actor, who) for actor in self.cluster.actors if self.job in (None, actor.job_id)]
        known = {worker.pid for worker in found if worker.pid}
        return [
            *found,
            *(
                Worker.of_task(task, who)
                for task in naming.tasks_of(self.cluster)
                if task.kind == "NORMAL_TASK" and task.state == "RUNNING" and task.pid and task.pid not in known
                if self.job in (None, task.job_id)
            ),
        ]


@dataclass(frozen=True)
class Worker:
    """An actor, or a process that runs a task. ``state`` is Ray's word."""

    who: str
    name: str
    actor_id: str | None
    task_id: str | None
    pid: int
    node_id: str | None
    state: str
    job_id: str

    @classmethod
    def of_actor(cls, actor: RayActor, who: dict[str, str]) -> Worker:
        called = who.get(actor.actor_id, actor.actor_id)
        pid = 0 if actor.state == "DEAD" else actor.pid
        return cls(called, actor.name, actor.actor_id, None, pid, actor.node_id, actor.state, actor.job_id)

    @classmethod
    def of_task(cls, task: RayTask, who: dict[str, str]) -> Worker:
        called = who.get(task.task_id, task.name)
        return cls(called, "", None, task.task_id, task.pid, task.node_id, task.state, task.job_id)

    def is_called(self, words: str) -> bool:
        """By its whole name or pid; an id may be cut."""
        ident = self.actor_id or self.task_id or ""
        by_id = len(words) >= SHORTEST_ID and ident.startswith(words.lower())
        by_name = bool(words) and words in (self.who, self.name)
        return by_name or by_id or (words.isdigit() and int(words) == self.pid != 0)


def look(target: str, timeout: float) -> Case:
    """The case of `target`, an ADDRESS or ``JOB@ADDRESS``. Raises what `jupyter_traindbg.outside.raystate` raises."""
    ends = time.monotonic() + timeout
    asked = parse_cluster(target)
    address = raystate.resolve(asked.address, min(LOOK_S, timeout))
    cluster = raystate.read(address, None, min(LOOK_S, max(0.5, ends - time.monotonic())))
    job = raystate.pick_job(cluster, asked.id).job_id if asked.id else None
    if not address.gcs and cluster.address:
        address = replace(address, gcs=cluster.address)
    case = Case(address, cluster, job, ends)
    if isinstance(cluster.tasks, NotAvailable):
        case.notes.append(f"its tasks are not known: {cluster.tasks.reason}")
    return case


def _listed(workers: list[Worker]) -> str:
    shown = [f"{w.who} ({w.actor_id or w.task_id}, pid {w.pid})" for w in workers[:SHOWN]]
    named, more = text(", ").join(shown), len(workers) - SHOWN
    return text("{names} and {more} more", names=named, more=more) if more > 0 else named
