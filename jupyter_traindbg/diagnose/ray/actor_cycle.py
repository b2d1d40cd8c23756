"""Actors that wait for each other in `ray.get`: each is busy waiting, so none can run the call that another one waits for.

The graph is over tasks: one that is blocked waits for those that it started and that have not ended; one that is queued at a busy actor
waits for what that actor runs. What can never go on is the greatest set of which each has only members to wait for (as in deadlocks of
resources: Coffman, Elphick and Shoshani, Computing Surveys 3, 1971).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...language import text
from ...model import RayTask, RayWorker
from ...words.durations import time_words
from .case import Hit, RayCase, hit, known
from .peers import call_name, waiting_for
from .words import names, short

__all__ = ["rule"]

QUEUED_S = 1.0
"""A call that has been queued for less may be about to start."""
_OVER = frozenset({"FINISHED", "FAILED"})


def rule(case: RayCase) -> list[Hit]:
    graph = _Graph(case)
    hits, told = [], set()
    for task_id in graph.hopeless:
        ring = graph.ring(task_id)
        members = frozenset(graph.row(t).who for t in ring)
        if ring and members not in told:
            told.add(members)
            hits.append(_hit(case, graph, ring))
    return hits


class _Graph:
    """Who waits for whom, by the ids of running tasks."""

    def __init__(self, case: RayCase) -> None:
        self._case = case
        self._rows = {r.actor_id: r for r in case.rows if r.actor_id}
        self._task_rows = {r.task_id: r for r in case.rows if r.task_id and not r.actor_id}
        self.tasks = {t.task_id: t for t in case.tasks if t.state not in _OVER}
        self._running: dict[str, list[str]] = {}
        self._children: dict[str, list[RayTask]] = {}
        for task in self.tasks.values():
            if task.state.startswith("RUNNING") and task.actor_id:
                self._running.setdefault(task.actor_id, []).append(task.task_id)
            if task.parent_task_id:
                self._children.setdefault(task.parent_task_id, []).append(task)
        self.needs = {t.task_id: needs for t in self.tasks.values() if (needs := self._needs(t))}
        self.hopeless = self._hopeless()

    def row(self, task_id: str) -> RayWorker:
        task = self.tasks[task_id]
        return self._rows[task.actor_id] if task.actor_id in self._rows else self._task_rows[task_id]

    def _has_row(self, task: RayTask) -> bool:
        return task.actor_id in self._rows or task.task_id in self._task_rows

    def _needs(self, task: RayTask) -> Mapping[str, Sequence[str]]:
        """For a running task that is blocked: by each call that it waits for, the running tasks that have to end first."""
        if not task.state.startswith("RUNNING") or not self._has_row(task):
            return {}
        row = self.row(task.task_id)
        if not self._case.waits_on_ray(row) or self._case.pace(row) == "moving":
            return {}
        children = self._children.get(task.task_id, [])
        if row.tier >= 2 and row.waits_for:
            children = [c for c in children if self._whose(c) in row.waits_for]
        return {child.task_id: self._before(child) for child in children}

    def _whose(self, task: RayTask) -> str:
        return self.row(task.task_id).who if self._has_row(task) else ""

    def _before(self, child: RayTask) -> Sequence[str]:
        """What has to end before `child` does: itself where it runs, else what its actor runs. Empty: it may go on any moment."""
        if child.state.startswith("RUNNING"):
            return (child.task_id,)
        queued = max(child.times.values(), default=self._case.cluster.taken_at)
        if child.actor_id is None or self._case.cluster.taken_at - queued < QUEUED_S:
            return ()
        return tuple(self._running.get(child.actor_id, ()))

    def _hopeless(self) -> list[str]:
        """Of those that wait, leave out again and again who waits for something that may still come."""
        left = set(self.needs)
        while True:
            alive = {
                t
                for t in left
                if not all(before and left.issuperset(before) for before in self.needs[t].values())
            }  # fmt: skip
            if not alive:
                return sorted(left)
            left -= alive

    def ring(self, start: str) -> list[str]:
        """The tasks from `start` round to itself, each waiting for the next; empty where `start` is in no ring."""
        paths = [[start]]
        seen = set()
        while paths:
            path = paths.pop(0)
            for before in self.needs[path[-1]].values():
                for task_id in before:
                    if task_id == start:
                        return path
                    if task_id not in seen:
                        seen.add(task_id)
                        paths.append([*path, task_id])
        return []

    def waits_for(self, task_id: str, following: str) -> str:
        """The name of the call through which `task_id` waits for `following`."""
        child = next(c for c, before in self.needs[task_id].items() if following in before)
        return self.tasks[child].name


def _hit(case: RayCase, graph: _Graph, ring: Sequence[str]) -> Hit:
    rows = [graph.row(t) for t in ring]
    following = [*ring[1:], ring[0]]
    circle = " -> ".join([*(r.who for r in rows), rows[0].who])
    lines = [_line(case, graph, t, f) for t, f in zip(ring, following, strict=True)]
    alone = len(ring) == 1
    since = max((known(r.since_s) or 0.0 for r in rows), default=0.0)
    lasts = text(", for {since}", since=time_words(since)) if since else ""
    title = text("Actors wait for each other for ever: {circle}{lasts}", circle=circle, lasts=lasts)
    if alone:
        title = text("{who} waits in ray.get for a call on itself{lasts}", who=rows[0].who, lasts=lasts)
    return hit(
        "ray_actor_deadlock",
        "critical",
        title,
        rows,
        case.where(rows[0]),
        evidence=[*lines, *waiting_for(case, rows)],
        cause=text(
            "An actor runs one call at a time. While it waits in ray.get it cannot run the call that the "
            "other one waits for."
        ),
        next_steps=[
            text(
                "Break the ring now: `traindbg ray-rescue --interrupt {who}`; its call fails, the others go on.",
                who=rows[0].who,
            ),
            text(
                "In the code: pass the object refs on instead of waiting inside an actor, make the method async "
                "(`await ref`), or give the actor `max_concurrency=2`."
            ),
        ],
        confidence="high" if all(case.pace(r) == "still" for r in rows) else "medium",
    )


def _line(case: RayCase, graph: _Graph, task_id: str, following: str) -> str:
    row, other = graph.row(task_id), graph.row(following)
    call, at = graph.waits_for(task_id, following), short(case.where(row))
    runs = call_name(other)
    return text(
        "{names} waits at {at} for {call} of {who}, which is busy in {runs}",
        names=names([row]),
        at=at,
        call=call,
        who=other.who,
        runs=runs,
    )
