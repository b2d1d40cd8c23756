"""Everything that can be known about a job within seconds, from all its ranks at once: evidence, no verdict.

    0 s      the agents go into all ranks that have none, side by side
    ~1 s     all are in, or have shown that they cannot be entered: the window opens
    window   /proc is read at its two ends; stacks are taken three times, and the agents asked at both ends for steps and collectives;
             beside it, over lines of their own, whether the training is sound (`soundness`), and then its gradients at the next step
    after    what follows from these: source lines, how ranks have ended that are gone, where those are to meet that are still joining

Every rank has threads of its own here, which write down what they get as they get it. A rank that does not answer costs nobody else any
time, and what it does not say is `NotAvailable` with the reason. At the deadline whatever is there goes into the answer.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from functools import partial

from ..attach.base import Link, introduce
from ..errors import TraindbgError
from ..model import Activity, Beside, JobEvidence, Look, NotAvailable, named_launcher
from ..outside import activity, filelocks, host, procfs, ras
from ..outside import stacks as outside
from ..tasks import Task
from . import partners, roster, soundness
from .assembled import Parts, assemble
from .watched import Plan, Watched

__all__ = ["activities", "gather"]

WINDOW_S = 1.5
ENTER_S = 4.0
"""How long one rank may take to be entered."""
PATIENCE_S = 1.5
"""How long all may take before the window opens without the rest."""
AFTER_S = 1.0
"""How long what follows from the evidence may take."""
RESERVE_S = 0.3
ALONE_S = 0.5
"""How long a launcher without ranks is watched."""
RAS_S = 2.0
_LOOK_S = 1.0
_LATE = NotAvailable("it did not answer in time")


def gather(job_name: str, links: Sequence[Link], launcher_pid: int | None = None, timeout: float = 10.0) -> JobEvidence:
    """What the ranks behind `links` do, and what has become of those that the launcher should have beside them.

    `launcher_pid` is looked for where it is not given; ranks of the same launcher that are not among `links` are looked at as well. With
    no links at all but a launcher, its ranks have ended or were not started yet, and it is looked at itself.

    Takes 2 to 4 s from cold, 1.7 s where agents run, never more than `timeout`. Enters the ranks; the caller closes its links. Raises
    nothing of its own: what is missing says why.
    """
    began = time.monotonic()
    asked = list(links)
    running = [
        link for link in asked if link.ended() is None
    ]  # another process may have the number of one that has ended
    if launcher_pid is None and len(asked) == 1 and running and roster.is_launcher(asked[0].pid):
        launcher_pid, asked, running = asked[0].pid, [], []  # its pid was given, and its ranks are meant
    launcher_pid = launcher_pid or _launcher(job_name, running)
    others = roster.siblings(running, launcher_pid) if links else []
    try:
        return _gather(job_name, [*asked, *others], launcher_pid, timeout, began)
    finally:
        leaving = [Task(link.leave, f"leave-{link.pid}") for link in others]
        for task in leaving:
            task.wait(began + timeout)


def _gather(
    job_name: str, links: Sequence[Link], launcher_pid: int | None, timeout: float, began: float
) -> JobEvidence:
    introduce(links)
    ends = began + max(0.5, timeout - RESERVE_S)
    asked_until = ends - min(AFTER_S, 0.1 * timeout)
    window_s = min(WINDOW_S, 0.2 * timeout) if any(link.ended() is None for link in links) else 0.0
    plan = Plan(began, asked_until, enter_s=min(ENTER_S, 0.4 * timeout), window_s=window_s)
    watched = [Watched(link, plan) for link in links]
    entering = [Task(one.enter, f"enter-{one.link.pid}") for one in watched]
    watching = [Task(one.watch, f"watch-{one.link.pid}") for one in watched]
    sounding = {link.pid: Task(partial(soundness.look, link, plan), f"sound-{link.pid}") for link in links}
    asked_ras = Task(lambda: ras.report([link.pid for link in links], RAS_S), "ras")
    about_host = Task(lambda: host.facts([link.pid for link in links]), "host")
    launcher = None if launcher_pid is None else Task(lambda: _launcher_stacks(launcher_pid, began), "launcher")
    patience = min(began + min(PATIENCE_S, 0.2 * timeout), asked_until)
    for task in entering:
        task.wait(patience)
    plan.open()
    doing = activities([link for link in links if link.ended() is None], plan.window_s)
    alone = (
        {}
        if links or launcher_pid is None
        else activity.watch([launcher_pid], ALONE_S, roles={launcher_pid: "launcher"})
    )
    for task in watching:
        task.wait(asked_until)
    sound = {pid: task.result(0.0) if task.wait(asked_until) else _LATE for pid, task in sounding.items()}
    for task in (*entering, *watching):
        if task.wait(0.0):
            task.result(0.0)  # an error of our own must not pass for a silent rank
    parts = Parts(
        job_name,
        watched,
        doing,
        launcher_pid,
        launcher=launcher.in_time(asked_until) if launcher is not None else None,
        host=about_host.in_time(asked_until),
        launcher_activity=next(iter(alone.values()), NotAvailable("it has ranks, or is gone")),
        soundness=sound,
        ras=_LATE if (said := asked_ras.in_time(asked_until)) is None else said,
    )
    evidence = assemble(parts, began, ends)
    here, beside = next(iter(evidence.beside.items()))
    locked = filelocks.holders(_want_file_locks(evidence, beside))
    return dataclasses.replace(evidence, beside={here: dataclasses.replace(beside, lock_holders=locked)})


def _want_file_locks(evidence: JobEvidence, beside: Beside) -> list[int]:
    """The processes of which a thread sits in a call that locks a file."""
    seen = [a for r in evidence.ranks for a in (r.activity, *r.children) if not isinstance(a, NotAvailable)]
    seen += [partner.activity for partner in beside.partners.values()]
    return [a.pid for a in seen if partners.locks_a_file(a)]


def _launcher(job_name: str, links: Sequence[Link]) -> int | None:
    pid = named_launcher(job_name)
    if pid is not None:
        return pid
    return roster.launcher_of(links[0].pid) if links else None


def _launcher_stacks(pid: int, began: float) -> Look | None:
    """None where the launcher is gone, or no Python."""
    at = time.monotonic() - began
    try:
        return Look(at, tuple(outside.dump(pid, deadline_s=_LOOK_S, children=False)))
    except TraindbgError:
        return None


def activities(links: Sequence[Link], window_s: float) -> dict[int, list[Activity]]:
    """By the pid of each rank: its own activity during the next `window_s` seconds first, then those of the processes below it."""
    table = procfs.processes()
    below = {
        link.pid: [p for p in procfs.descendants(link.pid, table, apart=link.others) if not _serves(p)]
        for link in links
    }
    children = [p for many in below.values() for p in many]
    roles = {p.pid: "DataLoader worker" if p.comm == "pt_data_worker" else "child" for p in children}
    seen = activity.watch([*below, *roles], window_s, roles=roles)
    return {pid: [seen[p] for p in (pid, *(c.pid for c in many)) if p in seen] for pid, many in below.items()}


def _serves(process: procfs.Process) -> bool:
    return process.state != "D" and procfs.serves_multiprocessing(process)  # else its command line might not come
