"""A look at a Ray cluster with what every rule needs worked out once: what each worker does over time, who its peers are, what they took.

A worker is judged by more than one look wherever a process can be looked at: `RayCase.view` says whether it moves or stands still over a
window, by its stacks, its CPU time and the kernel. What merely takes long is no finding; what takes long *and* stands still *and* is
unlike its peers may be one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from ...model import (
    Finding,
    JobEvidence,
    Maybe,
    NotAvailable,
    RayActor,
    RayCluster,
    RayDeath,
    RayJobInfo,
    RayNode,
    RayTask,
    RayWorker,
    RayWorkers,
    SourceLine,
    things,
)
from ..hang.case import Case, build
from ..hang.doing import FOR_OTHER_RANKS, Doing
from ..hang.ranks import View, view
from ..hang.words import place

__all__ = ["ENDED", "NOT_UP", "Hit", "RayCase", "Resources", "hit", "known"]

Resources = Mapping[str, float]

NOT_UP = frozenset(
    {
        "infeasible", "waiting for resources", "waiting for an argument", "building runtime_env", "starting", "registering", "in __init__",
        "restarting",
    }
)  # fmt: skip
"""States of what has never run a line for the one who asked for it."""
ENDED = frozenset({"dead", "ended"})
STILL_S = 1.0
COUNTED_LATE_S = 20.0
"""A node's report of the calls that its workers have finished is as old as that at times: Ray collects them every 15 s."""
SHORT_ID = 6
CHILD_BUSY, PROCESS_BUSY = 0.1, 0.3
"""Of one CPU. An agent of ours that has just come in takes some of its process's, too."""


@dataclass(frozen=True)
class Hit:
    """A finding and the workers, by ``who``, that it blames; ``explains`` are those whose trouble follows from it."""

    finding: Finding
    workers: frozenset[str] = frozenset()
    explains: frozenset[str] = frozenset()


@dataclass(frozen=True)
class RayCase:
    """What the rules are given. ``closer``: by node, what the threads of suspected processes did over a window (`wanted` says which).

    ``calls``: how long the finished calls of a method took, in seconds, by the task's name (``"Collector.run"``). ``later``: the cluster's
    own word some seconds afterwards. ``led``: where nobody moves, who waits in `ray.get` or `ray.wait` (`waits.asking`), each as a rank,
    and beside them all to whom these waits lead.
    """

    cluster: RayCluster
    workers: RayWorkers
    closer: Mapping[str, JobEvidence] = field(default_factory=dict)
    calls: Mapping[str, Sequence[float]] = field(default_factory=dict)
    later: RayCluster | None = None
    led: JobEvidence | None = None

    # --- rows

    @cached_property
    def running_jobs(self) -> frozenset[str]:
        return frozenset(j.job_id for j in self.jobs if j.running and j.job_id)

    @property
    def jobs(self) -> Sequence[RayJobInfo]:
        return self.workers.jobs or self.cluster.jobs

    @cached_property
    def rows(self) -> tuple[RayWorker, ...]:
        """The workers of jobs that still run. Those of ended jobs are nobody's trouble, unless they hold what others need (`leftovers`)."""
        return tuple(
            r for r in self.workers.workers if r.job_id is None or not self.jobs or r.job_id in self.running_jobs
        )

    @cached_property
    def drivers(self) -> tuple[RayWorker, ...]:
        return tuple(r for r in self.rows if r.kind == "driver")

    def states(self, *states: str) -> list[RayWorker]:
        """The rows in one of these states, drivers aside."""
        return [r for r in self.rows if r.state in states and r.kind != "driver"]

    @cached_property
    def by_who(self) -> Mapping[str, RayWorker]:
        return {r.who: r for r in self.rows}

    def peers(self, row: RayWorker) -> list[RayWorker]:
        """Others of its kind: actors of the same class, ranks of Ray Train, or tasks of the same name, in the same job."""
        return [r for r in self._alike.get(_kind(row), ()) if r is not row]

    @cached_property
    def _alike(self) -> Mapping[tuple[object, ...], Sequence[RayWorker]]:
        groups: dict[tuple[object, ...], list[RayWorker]] = {}
        for row in self.rows:
            groups.setdefault(_kind(row), []).append(row)
        return groups

    # --- nodes and tasks

    @cached_property
    def living_nodes(self) -> tuple[RayNode, ...]:
        return tuple(n for n in self.cluster.nodes if n.alive)

    @cached_property
    def tasks(self) -> tuple[RayTask, ...]:
        return () if isinstance(self.cluster.tasks, NotAvailable) else self.cluster.tasks

    @cached_property
    def creations(self) -> Mapping[str, RayTask]:
        """The last attempt at creating each actor, by its id."""
        found: dict[str, RayTask] = {}
        for task in self.tasks:
            if task.kind == "ACTOR_CREATION_TASK" and task.actor_id:
                before = found.get(task.actor_id)
                if before is None or before.attempt <= task.attempt:
                    found[task.actor_id] = task
        return found

    def node_name(self, node_id: str | None) -> str:
        """Its name; with the beginning of its id where several living ones have it."""
        node = next((n for n in self.cluster.nodes if n.node_id == node_id), None)
        if node is None:
            return (node_id or "")[:SHORT_ID]
        name = node.name or node.ip
        alone = sum((n.name or n.ip) == name for n in self.living_nodes) < 2
        return name if alone and name else f"{name} ({node.node_id[:SHORT_ID]})"

    @cached_property
    def actors(self) -> Mapping[str, RayActor]:
        return {a.actor_id: a for a in self.cluster.actors}

    @cached_property
    def _tasks_by_id(self) -> Mapping[str, RayTask]:
        return {t.task_id: t for t in self.tasks}

    def task(self, row: RayWorker) -> RayTask | None:
        return self._tasks_by_id.get(row.task_id or "")

    def required(self, row: RayWorker) -> Resources:
        """The resources that it needs, or holds."""
        creation = self.creations.get(row.actor_id or "") if row.kind != "task" else self.task(row)
        actor = self.actors.get(row.actor_id or "") if row.kind != "task" else None
        return (actor.required if actor is not None else {}) or (creation.required if creation is not None else {})

    def since_s(self, row: RayWorker) -> float | None:
        """For how long it has been in its state; up to the second look where it is still at the same call then."""
        since = known(row.since_s)
        if since is None or self.later is None or row.who not in self._same_call_later:
            return since
        return since + max(0.0, self.later.taken_at - self.cluster.taken_at)

    @cached_property
    def _same_call_later(self) -> frozenset[str]:
        running = {(t.task_id, t.attempt) for t in self._running_later}
        return frozenset(
            r.who for r in self.rows if (t := self._call(r)) is not None and (t.task_id, t.attempt) in running
        )

    @cached_property
    def _running_later(self) -> tuple[RayTask, ...]:
        tasks = () if self.later is None or isinstance(self.later.tasks, NotAvailable) else self.later.tasks
        return tuple(t for t in tasks if t.state.startswith("RUNNING"))

    def _call(self, row: RayWorker) -> RayTask | None:
        return self.creations.get(row.actor_id or "") if row.state == "in __init__" else self.task(row)

    def death(self, row: RayWorker) -> RayDeath | None:
        actor, task = self.actors.get(row.actor_id or ""), self.task(row)
        return (actor.death if actor is not None else None) or (task.death if task is not None else None)

    # --- the closer look

    @cached_property
    def views(self) -> Mapping[tuple[str, int], View]:
        """What each process that was looked at does, by node and pid."""
        return {
            (node_id, rank.pid): view(rank, evidence.sources)
            for node_id, evidence in self.closer.items()
            for rank in evidence.ranks
        }

    def view(self, row: RayWorker) -> View | None:
        return self.views.get((row.node_id or "", row.pid)) if row.pid else None

    def sources(self, row: RayWorker) -> Mapping[str, SourceLine]:
        evidence = self.closer.get(row.node_id or "")
        return evidence.sources if evidence is not None else {}

    def pace(self, row: RayWorker) -> Literal["still", "moving", "stopped", "not known"]:
        """Whether it moved during the closer look. A child process that works, or another thread, counts as its own work.

        A process without a line of the user's on any thread that counts (an async actor) shows by its CPU time alone that it moves.
        """
        seen = self.view(row)
        if seen is None or seen.role in ("not known", "not seen", "ended"):
            return _told(row)
        activity = seen.activity
        if seen.role == "stopped":
            return "stopped"
        if activity is not None and activity.cpu_share > PROCESS_BUSY:
            return "moving"
        if any(child.cpu_share > CHILD_BUSY for child in seen.evidence.children):
            return "moving"
        if seen.now.users is None and row.kind != "driver":
            return "not known"
        return "moving" if seen.role in ("moving", "stepping") else "still"

    def doing(self, row: RayWorker) -> Doing | None:
        seen = self.view(row)
        return seen.now if seen is not None and seen.doings else None

    def where(self, row: RayWorker) -> str | None:
        """The user's innermost ``"file:line function"``: from the closer look, else as the row has it."""
        seen = self.doing(row)
        told = place(seen.users) if seen is not None else None
        return told or (row.where if isinstance(row.where, str) else None)

    def source(self, row: RayWorker) -> str:
        """The line of source at which it stands; empty where it is not known."""
        seen = self.doing(row)
        line = self.sources(row).get(f"{seen.frame.file}:{seen.frame.line}") if seen and seen.frame else None
        return line.text if line is not None else ""

    def waits_on_ray(self, row: RayWorker) -> bool:
        """Whether it sits in `ray.get` or `ray.wait`: then others are to blame."""
        seen = self.doing(row)
        return row.state == "blocked" or (seen is not None and seen.kind == "ray")

    def waits_for_ranks(self, row: RayWorker) -> bool:
        """Whether it sits in a collective: which of the ranks is to blame is for the diagnosis of ranks to say."""
        seen = self.doing(row)
        return seen is not None and seen.kind in FOR_OTHER_RANKS

    # --- is anything going on?

    @cached_property
    def moving(self) -> tuple[RayWorker, ...]:
        """Who got on with something between the looks: its stack or CPU time, or calls that it finished or began."""
        return tuple(r for r in self.rows if self.pace(r) == "moving" or self.finished_since(r) or self.begun_since(r))

    def finished_since(self, row: RayWorker) -> bool:
        """Whether it finished calls between the two looks at the cluster. A call that runs at both of them, and is young, says that those
        of which the report came meanwhile had ended before it began.
        """
        now = self._later_executed.get(row.actor_id or "")
        if row.who in self._same_call_later and (known(row.since_s) or 0.0) < COUNTED_LATE_S:
            return False
        return now is not None and isinstance(row.executed, int) and now > row.executed

    def begun_since(self, row: RayWorker) -> bool:
        """Whether it had nothing to do at the first look, and runs a call at the second. Ray tells of a call a second after it began, or
        later: the first look may have missed one that ran.
        """
        return row.state == "idle" and row.actor_id in self._called_later

    @cached_property
    def _called_later(self) -> frozenset[str]:
        return frozenset(t.actor_id for t in self._running_later if t.actor_id)

    @cached_property
    def _later_executed(self) -> Mapping[str, int]:
        if self.later is None:
            return {}
        return {a.actor_id: a.executed for a in self.later.actors if isinstance(a.executed, int)}

    @cached_property
    def waits(self) -> Case | None:
        """What is `led` to, worked out as for ranks; None where nobody was followed."""
        return None if self.led is None else build(self.led)

    @property
    def stands_still(self) -> bool:
        """Whether nobody of the job gets on with anything, as far as was seen. Says nothing where nobody was looked at."""
        return bool(self.views) and not self.moving


def _kind(row: RayWorker) -> tuple[object, ...]:
    return row.job_id, row.kind, row.class_name or (row.method if row.kind == "task" else ""), row.kind == "train"


def _told(row: RayWorker) -> Literal["still", "moving", "not known"]:
    """What the row itself says, where nobody has looked more closely: its threads were watched for a moment, too."""
    still = known(row.still_s)
    if still is None or not row.stack or any(t.kind == "coroutine" for t in row.threads):
        return "not known"
    return "still" if still > STILL_S else "moving"


def known(value: Maybe[float]) -> float | None:
    """The number, or None where there is none."""
    return None if isinstance(value, NotAvailable) else float(value)


def hit(
    code: str,
    severity: Literal["critical", "warning", "info"],
    title: str,
    blamed: Iterable[RayWorker | str] = (),
    where: str | None = None,
    *,
    evidence: Iterable[str] = (),
    cause: str = "",
    next_steps: Iterable[str] = (),
    confidence: Literal["high", "medium", "low"] = "high",
    explains: Iterable[RayWorker] = (),
    who: Collection[str] | None = None,
) -> Hit:
    """A hit that blames `blamed`. `who`: how the finding names them, where that is not one by one."""
    workers = tuple(dict.fromkeys(b if isinstance(b, str) else b.who for b in blamed))
    finding = Finding(
        code,
        severity,
        title,
        tuple(things(workers if who is None else who)),
        where,
        tuple(dict.fromkeys(e for e in evidence if e)),
        cause,
        tuple(s for s in next_steps if s),
        confidence=confidence,
    )
    return Hit(finding, frozenset(workers), frozenset(r.who for r in explains) | frozenset(workers))
