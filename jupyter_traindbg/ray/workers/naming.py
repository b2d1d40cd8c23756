"""How a worker is called, everywhere the same: by its actor's name, else by its class and its number in the order of creation."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable

from ...model import NotAvailable, RayActor, RayCluster, RayTask, RayTrainWorker
from ...words.ranks import number_runs

__all__ = ["creation_tasks", "names", "tasks_of", "together"]

SHORT = 6
"""So much of an id tells things of one name apart."""
_NUMBERED = re.compile(r"(.*\[|rank )(\d+)(\]?.*)")


def names(cluster: RayCluster, of: str | None = None) -> dict[str, str]:
    """``Collector[17]``, ``store``, ``rank 3``, ``fetch``, ``driver``: the `who` of every actor, task and job, by its id.

    A method call is called as the actor that runs it. Numbers count the actors of one class in one job in the order in which they were
    created, the dead ones too: a number never changes, and is the place in a list that a program made of them in a loop.
    What two running jobs have in common is told apart by the job: ``Collector[17] of job 02000000``; so is what an ended job has left. What
    belongs to the job `of`, the only one that is asked for, needs no such word.
    """
    ended = {job.job_id for job in cluster.jobs if not job.running}
    found = [*_actors(cluster, of), *_tasks(cluster), *_drivers(cluster)]
    jobs: defaultdict[str, set[str]] = defaultdict(set)
    for _, name, job in found:
        jobs[name] |= {job} - ended
    who: dict[str, str] = {}
    for key, name, job in found:
        shared = job not in ("", of) and (job in ended or len(jobs[name]) > 1)
        who[key] = f"{name} of job {job}" if shared else name
    for task in tasks_of(cluster):
        if task.actor_id is not None and task.actor_id in who:
            who[task.task_id] = who[task.actor_id]
    return who


def tasks_of(cluster: RayCluster) -> tuple[RayTask, ...]:
    """The tasks that the cluster tells of; none where it cannot."""
    return () if isinstance(cluster.tasks, NotAvailable) else cluster.tasks


def creation_tasks(cluster: RayCluster) -> dict[str, RayTask]:
    """The last attempt at creating each actor, by the actor's id."""
    found: dict[str, RayTask] = {}
    for task in tasks_of(cluster):
        if task.kind == "ACTOR_CREATION_TASK" and task.actor_id is not None:
            known = found.get(task.actor_id)
            if known is None or known.attempt <= task.attempt:
                found[task.actor_id] = task
    return found


def _actors(cluster: RayCluster, of: str | None) -> Iterable[tuple[str, str, str]]:
    ranks = {worker.actor_id: worker for worker in cluster.train}
    runs = {worker.run for worker in cluster.train if worker.rank >= 0 and of in (None, worker.job_id)}
    several_runs = len(runs) > 1
    numbers: Counter[tuple[str, str]] = Counter()
    called: dict[tuple[str, str], RayActor] = {}
    in_order = _in_order(cluster)
    for actor in in_order:
        if actor.name:
            called[actor.job_id, actor.name] = actor  # the last one keeps the name
    for actor in in_order:
        number = numbers[actor.job_id, actor.class_name]
        numbers[actor.job_id, actor.class_name] += 1
        if (worker := ranks.pop(actor.actor_id, None)) is not None and worker.rank >= 0:
            name = _rank(worker, several_runs)
        elif not actor.name:
            name = f"{actor.class_name}[{number}]"
        elif called[actor.job_id, actor.name] is actor:
            name = actor.name
        else:
            name = f"{actor.name} ({actor.actor_id[:SHORT]})"
        yield actor.actor_id, name, actor.job_id
    for worker in (worker for worker in ranks.values() if worker.rank >= 0):
        yield worker.actor_id, _rank(worker, several_runs), worker.job_id or ""


def _rank(worker: RayTrainWorker, several_runs: bool) -> str:
    return f"rank {worker.rank} of {worker.run}" if several_runs else f"rank {worker.rank}"


def _in_order(cluster: RayCluster) -> list[RayActor]:
    """As they were created: by the first that is known of their creation tasks, within a millisecond as the dashboard heard of them."""
    created: dict[str, float] = {}
    for task in tasks_of(cluster):
        if task.kind == "ACTOR_CREATION_TASK" and task.actor_id is not None and task.times:
            began = min(task.times.values())
            created[task.actor_id] = min(began, created.get(task.actor_id, began))
    never = float("inf")
    return sorted(
        cluster.actors,
        key=lambda a: (created.get(a.actor_id, never), never if a.order is None else a.order, a.actor_id),
    )


def _tasks(cluster: RayCluster) -> Iterable[tuple[str, str, str]]:
    """A task by its name; with the beginning of its id where several of that name are about, since those that end would change a number."""
    normal = {task.task_id: task for task in tasks_of(cluster) if task.actor_id is None}
    many = Counter((task.job_id, task.name) for task in normal.values())
    for key, task in normal.items():
        alone = many[task.job_id, task.name] == 1
        yield key, task.name if alone else f"{task.name}[{key[:SHORT]}]", task.job_id


def _drivers(cluster: RayCluster) -> Iterable[tuple[str, str, str]]:
    return ((job.job_id, "driver", job.job_id) for job in cluster.jobs if job.job_id is not None)


def together(who: Iterable[str], most: int = 4, runs: int = 12) -> str:
    """Many workers in few words: ``Collector[0-6, 8-999], store and 3 more``. At most `most` pieces, each of at most `runs` numbers."""
    numbers: dict[tuple[str, str], list[int]] = {}
    for name in who:
        match = _NUMBERED.fullmatch(name)
        key = (match[1], match[3]) if match else (name, "")
        numbers.setdefault(key, []).extend([int(match[2])] if match else [])
    pieces = [_numbered(before, after, found, runs) for (before, after), found in numbers.items()]
    if len(pieces) <= most + 1:
        return ", ".join(pieces)
    return f"{', '.join(pieces[:most])} and {len(pieces) - most:,} more"


def _numbered(before: str, after: str, numbers: Iterable[int], most: int) -> str:
    ordered = sorted(set(numbers))
    if not ordered:
        return before
    several = len(ordered) > 1 and before.endswith("rank ")
    return f"{before.rstrip() + 's ' if several else before}{number_runs(ordered, most)}{after}"
