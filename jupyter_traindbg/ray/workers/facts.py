"""A look at a cluster, with what the rows are joined on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...model import NotAvailable, RayCluster, RayProcess, RayState, RayTask, RayWorker
from .naming import creation_tasks, names, tasks_of
from .shortage import Shortage, Stock

__all__ = ["NEEDS_STACK", "NO_PROCESS", "NO_TIME", "RAYS_OWN", "Facts", "Said", "row"]

ENDED = ("FINISHED", "FAILED", "NIL")
"""Ray's words for tasks that are over."""
RAYS_OWN = frozenset({"JobSupervisor"})
"""Classes of actors by which Ray keeps its own books: nobody's work."""
NEEDS_STACK = NotAvailable("needs its stack (tier 1)")
NO_PROCESS = NotAvailable("it has no process")
NO_TIME = NotAvailable("the cluster does not say since when")


class Said(NamedTuple):
    """A state, in a word and in a sentence, and since when; and what is missing where that keeps it waiting."""

    state: RayState
    words: str
    since_s: float | NotAvailable = NO_TIME
    shortage: Shortage | None = None


class Facts:
    """What the cluster said, by whom it is about; `of` is the only job that is asked for (None: all)."""

    def __init__(self, cluster: RayCluster, of: str | None = None) -> None:
        self.cluster = cluster
        self.who = names(cluster, of)
        self.stock = Stock(cluster, self.who)
        self.creations = creation_tasks(cluster)
        self.nodes = {node.node_id: node for node in cluster.nodes}
        self.tasks_known = not isinstance(cluster.tasks, NotAvailable)
        processes = () if isinstance(cluster.processes, NotAvailable) else cluster.processes
        self.processes = {(process.node_id, process.pid): process for process in processes if process.alive}
        self.tasks: dict[str, RayTask] = {}
        """The last attempt at each."""
        self.running: defaultdict[str, list[RayTask]] = defaultdict(list)
        self.waiting: defaultdict[str, list[RayTask]] = defaultdict(list)
        """Of each actor, the calls that it runs and those that it does not run yet."""
        self.calls: defaultdict[str, list[RayTask]] = defaultdict(list)
        """The tasks and method calls that have not ended, by the task that made them."""
        self.open_tasks: set[str] = set()
        for task in tasks_of(cluster):
            self._add(task)

    def _add(self, task: RayTask) -> None:
        known = self.tasks.get(task.task_id)
        if known is None or known.attempt <= task.attempt:
            self.tasks[task.task_id] = task
        if task.state in ENDED:
            return
        self.open_tasks.add(task.task_id)
        self.calls[task.parent_task_id or ""].append(task)
        if task.kind == "ACTOR_TASK" and task.actor_id is not None:
            found = self.running if task.state.startswith("RUNNING") else self.waiting
            found[task.actor_id].append(task)

    def node_of(self, pid: int, node_id: str | None) -> str | None:
        """The node where `pid` is a worker; Ray does not name the node of an actor that is still in ``__init__``."""
        if node_id or not pid:
            return node_id
        found = {where for where, one in self.processes if one == pid and where}
        return found.pop() if len(found) == 1 else None

    def process(self, pid: int, node_id: str | None) -> RayProcess | None:
        return self.processes.get((node_id, pid))

    def ago(self, at: float | None) -> float | NotAvailable:
        return NO_TIME if at is None else max(0.0, self.cluster.taken_at - at)

    def called_by(self, task_ids: Sequence[str]) -> tuple[str, ...]:
        """Whose results the calls made by `task_ids` bring, those that have not ended."""
        found = {self.who.get(call.task_id, call.name): None for task in task_ids for call in self.calls.get(task, ())}
        return tuple(found)


def row(facts: Facts, who: str, said: Said, pid: int, node_id: str | None, **fields: Any) -> RayWorker:
    """A row with what is known of its process and its node."""
    node_id = facts.node_of(pid, node_id)
    node = facts.nodes.get(node_id or "")
    process = facts.process(pid, node_id) if pid else None
    if process is not None:
        measured = {"cpu_percent": process.cpu_percent, "rss_bytes": process.rss_bytes, "gpu_bytes": process.gpu_bytes}
        fields = {"executed": process.executed, "queued": process.queued, **measured, **fields}
    if said.shortage is not None:
        fields = {"missing": said.shortage.missing, "waits_for": said.shortage.holders, **fields}
    return RayWorker(
        who=who,
        state=said.state,
        words=said.words,
        since_s=said.since_s,
        pid=pid,
        node_id=node_id,
        node=node.ip if node else "",
        **fields,
    )
