"""Show every thread of every rank: its state, how much CPU it uses, where it is, and which lock it waits for or holds."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..attach.base import Link, ask_all
from ..diagnose import threads as rules
from ..diagnose.at_source import at_source
from ..errors import TraindbgError
from ..frames.waits import waiting_for
from ..frames.whose import where
from ..gather import stacks
from ..gather.whole_job import activities
from ..model import (
    Activity,
    LockWait,
    Maybe,
    NotAvailable,
    ProcessStacks,
    ProcessThreads,
    ProcessUse,
    Thread,
    ThreadActivity,
    Threads,
    ThreadUse,
)
from ..outside import procfs
from ..redact import Redactor
from ..tasks import Task
from .base import DEADLINE_S, InReport, Ranks, Whom

EXAMPLES = (
    ("", "of the job attached to, else of the only one there is"),
    ("4711", "of this process and its children"),
)
WHOM = Whom.EVERYBODY
IN_REPORT = InReport("Threads", 25)
WINDOW_S, WINDOW_SHARE = 1.0, 0.25
"""How long they are watched, at most and as a share of the whole time: the kernel counts CPU time in as little as 1 ms."""
LOCKS_S = 3.0
OURS = "traindbg"
"""How this debugger's own threads are called."""
_OF_A_RANK = "only of the ranks themselves"


def ask(job: Ranks, *, timeout: float = DEADLINE_S) -> Threads:
    """What every thread of every rank, of its DataLoader workers and of other processes below it does, and what that costs.

    CPU and state from two readings of /proc, 1 s apart, of all threads, those of C++ and CUDA too; places from the agent or by py-spy, as
    for `stacks`; locks from the agent, which is brought in (0.2 ms of the GIL, and 0.3 ms for each function that takes a lock; none is
    touched). A rank that cannot be entered has no locks, and `ProcessThreads.locks` says why. Takes 1.1 s, at most `timeout`.
    """
    began = time.monotonic()
    ends = began + timeout
    links = job.open_links()
    window_s = min(WINDOW_S, WINDOW_SHARE * timeout)
    running = [link for link in links if link.ended() is None]
    watching = Task(lambda: activities(running, window_s), "threads")
    asked = ask_all(links, lambda link: _look(link, ends), timeout).need_one()
    used = watching.result(ends)
    stuck = frozenset(procfs.uninterruptible([link.pid for link in running]))
    processes = [
        process
        for link, seen in asked.answers
        for process in _of_rank(link, seen, used.get(link.pid, ()), _redactor(link, stuck))
    ]
    verdict = rules.findings(processes)
    if verdict:
        seen = [process for _, (python, _) in asked.answers for process in python]
        verdict = at_source(verdict, stacks.lines(seen, ends))
    return Threads(tuple(processes), asked.silent, window_s, time.monotonic() - began, tuple(verdict))


# --- one rank ------------------------------------------------------------------------------------------------------

_Locks = Maybe[Mapping[str, Any]]
_Seen = tuple[list[ProcessStacks], _Locks]


def _look(link: Link, ends: float) -> _Seen:
    """The Python threads of a rank and of the processes below it, and what its agent knows of their locks."""
    if (gone := link.ended()) is not None:
        raise gone
    locks: _Locks
    try:
        locks = link.call("locks", {}, min(LOCKS_S, 0.5 * (ends - time.monotonic())))
    except TraindbgError as e:
        locks = NotAvailable(e.cause)
    return stacks.of(link, link.answering(), ends, children=True), locks


def _of_rank(link: Link, seen: _Seen, used: Sequence[Activity], redactor: Redactor) -> list[ProcessThreads]:
    python, locks = seen
    by_pid = {process.pid: process for process in python}
    told = []
    for activity in used:
        of = _process(
            link, activity, by_pid.get(activity.pid), locks if activity.pid == link.pid else NotAvailable(_OF_A_RANK)
        )
        told.append(replace(of, use=_use(activity, redactor)))
    return told


def _redactor(link: Link, stuck: frozenset[int]) -> Redactor:
    """It knows what the environment of a rank gives away by names; to read that of a `stuck` one would wait with it."""
    redactor = Redactor()
    if link.pid not in stuck:
        redactor.learn_from(procfs.whole_environ(link.pid))
    return redactor


def _process(link: Link, activity: Activity, python: ProcessStacks | None, locks: _Locks) -> ProcessThreads:
    """`python`: its Python threads, where they could be read. Both sides know a thread by the number that it has for itself."""
    numbers = {thread.tid: procfs.own_tid(activity.pid, thread.tid) for thread in activity.threads}
    known = {
        thread.tid: thread for thread in (python.threads if python is not None else ()) if isinstance(thread.tid, int)
    }
    at_locks = {} if isinstance(locks, NotAvailable) else {row["tid"]: row for row in locks["threads"]}
    outer = {own: tid for tid, own in numbers.items()}
    rings, ours = ([], []) if isinstance(locks, NotAvailable) else (locks["cycles"], locks["ours"])
    threads = []
    for one in activity.threads:
        own = numbers[one.tid]
        seen = _thread(one, known.get(own), at_locks.get(own))
        threads.append(replace(seen, name=OURS) if own in ours else seen)
    return ProcessThreads(
        rank=link.rank,
        pid=activity.pid,
        role=activity.role if python is None else python.role,
        worker=link.worker,
        process_cpu_share=activity.cpu_share,
        locks=locks if isinstance(locks, NotAvailable) else True,
        threads=tuple(sorted(threads, key=lambda thread: (-thread.cpu_share, not thread.training, thread.tid))),
        rings=tuple(tuple(outer.get(tid, tid) for tid in ring) for ring in rings),
        note="" if python is None else python.note,
    )


def _use(activity: Activity, redactor: Redactor) -> ProcessUse:
    return ProcessUse(
        redactor.text(activity.command),
        procfs.thread_state(activity.state),
        activity.rss_bytes,
        activity.swap_bytes,
        activity.read_bytes_per_s,
        activity.written_bytes_per_s,
        activity.major_faults_per_s,
        activity.running_s,
    )


def _thread(used: ThreadActivity, python: Thread | None, at_lock: Mapping[str, Any] | None) -> ThreadUse:
    waits = waiting_for((), used.call or None, used.on) if python is None else python.waiting_for
    state = procfs.thread_state(used.state)
    if state == "waiting" and python is not None and python.state == "running":
        state = "running"  # it was asleep when it was looked at last, and computed while its stack was read
    lock = None if at_lock is None or not at_lock["waits_for"] else _lock(at_lock["waits_for"])
    return ThreadUse(
        tid=used.tid,
        name=used.name if python is None else python.name,
        state=state,
        cpu_share=used.cpu_share,
        starved_share=used.starved_share,
        python=python is not None and bool(python.frames),
        training=python is not None and python.training,
        waiting_for=waits,
        where=None if python is None else where(python.frames),
        lock=lock,
        holds=tuple(_name(one) for one in at_lock["holds"]) if at_lock is not None else (),
    )


def _lock(raw: Mapping[str, Any]) -> LockWait:
    holder: Mapping[str, Any] = next(iter(raw["held_by"]), {"thread": "", "tid": None, "where": "", "how": ""})
    return LockWait(
        name=_name(raw),
        kind=raw["kind"],
        where=raw["where"],
        holder=holder["thread"],
        holder_tid=holder["tid"],
        holder_where=holder["where"] or "",
        how=holder["how"],
    )


def _name(raw: Mapping[str, Any]) -> str:
    """As the source has it; ``a Lock``, ``an Event`` where that is more than a name."""
    return raw["name"] or f"{'an' if raw['kind'][0] in 'AEIOU' else 'a'} {raw['kind']}"
