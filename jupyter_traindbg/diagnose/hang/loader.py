"""A rank that waits for its DataLoader: which worker does not deliver, and why; or nobody can deliver any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...frames.whose import own_frames
from ...language import text
from ...model import Activity, Finding, NotAvailable, ProcessStacks, Subject, rank_subjects
from .case import Case, Hit, View, training_thread
from .doing import Doing, doing, phrase
from .motion import busy, flows, thread_activity
from .words import place, short_place

EXPLAINS = {
    "dataloader_worker_stuck": ("dataloader_wait", "unequal_steps", "collective_not_issued", "straggler", "data_wait"),
    "dataloader_wait": ("unequal_steps", "collective_not_issued", "cpu_phase", "straggler", "data_wait"),
}
FEW_BYTES = 64 * 2**20
"""Of shared memory that is left: a batch may not fit."""
_FETCH = "/torch/utils/data/_utils/fetch.py"


@dataclass(frozen=True)
class Worker:
    """One DataLoader worker over the looks. ``stuck``: at the same place, without any CPU, and not for want of work."""

    pid: int
    seen: Doing
    stuck: bool
    idle: bool
    activity: Activity | None
    note: str = ""


def rule(case: Case) -> list[Hit]:
    hits = []
    for view in case.roles("still", "moving"):
        if view.now.kind != "loader" or not all(d.kind == "loader" for d in view.doings):
            continue
        workers = [_worker(case, view, p) for p in _loader_workers(view)]
        stuck = [w for w in workers if w.stuck]
        if stuck and (case.overdue or all(_for_good(w) for w in stuck)):
            hits.append(_worker_stuck(case, view, stuck, workers))
        elif case.overdue and (view.role == "still" or view.served) and not _just_starting(case, workers):
            hits.append(_waits(case, view, workers))
    return hits


def _just_starting(case: Case, workers: Sequence[Worker]) -> bool:
    """Workers that get on, in a job that nobody waits in and that has not shown yet how long it takes for a batch."""
    return any(not w.idle for w in workers) and not case.waiting and case.progress.longest_s is None


# --- the workers ---------------------------------------------------------------------------------------------------


def _loader_workers(view: View) -> list[ProcessStacks]:
    return [p for p in view.below() if p.role == "DataLoader worker"]


def _worker(case: Case, view: View, process: ProcessStacks) -> Worker:
    """From all looks that saw it."""
    seen = [
        doing(training_thread(p), case.sources)
        for look in view.evidence.looks
        for p in look.processes
        if p.pid == process.pid
    ]
    now = seen[-1]
    activity = next((a for a in view.evidence.children if a.pid == process.pid), None)
    idle = now.kind == "idle" or (not _fetches(now) and now.kind in ("process", "queue", "pipe"))
    still = len({d.at for d in seen}) == 1 and not _busy(activity, now, process.pid)
    stopped = activity is not None and activity.state in ("T", "t")
    return Worker(
        process.pid, now, stopped or (still and not idle and now.kind != "computing"), idle, activity, process.note
    )


def _fetches(seen: Doing) -> bool:
    """Whether it is in the dataset's code, or in that of a library that stands for it."""
    own = own_frames(seen.thread.frames) if seen.thread is not None else ()
    return seen.users is not None or any(f.file.endswith(_FETCH) for f in own)


def _busy(activity: Activity | None, seen: Doing, pid: int) -> bool:
    main = thread_activity(activity, seen.thread, pid)
    if main is None:
        return False
    return (
        busy(main) or flows(seen, activity, main) or (seen.kind == "sleep" and main.switches > 0)
    )  # it wakes up and goes on


def _for_good(worker: Worker) -> bool:
    """Nothing that the worker does can end this."""
    return worker.activity is not None and worker.activity.state in ("T", "t")


def _on(worker: Worker) -> str:
    """The file or socket of the system call that it sits in."""
    main = thread_activity(worker.activity, worker.seen.thread, worker.pid)
    return main.on if main is not None and main.on else ""


# --- findings ------------------------------------------------------------------------------------------------------


def _worker_stuck(case: Case, view: View, stuck: Sequence[Worker], workers: Sequence[Worker]) -> Hit:
    first = stuck[0]
    at = short_place(first.seen.frame)
    pids = ", ".join(str(w.pid) for w in stuck)
    idle = [str(w.pid) for w in workers if w.idle]
    others = [text("its other workers have nothing to do: {idle}", idle=", ".join(idle))] if idle else []
    workers_are = f"worker {pids} is" if len(stuck) == 1 else f"workers {pids} are"
    title = text(
        "Rank {rank} waits for a batch: its DataLoader {workers_are} stuck at {at}",
        rank=view.rank,
        workers_are=workers_are,
        at=at,
        pids=pids,
    )
    finding = Finding(
        "dataloader_worker_stuck",
        "critical",
        title,
        (*rank_subjects([view.rank]), *(Subject("loader_worker", w.pid) for w in stuck)),
        place(first.seen.frame),
        [
            *(_worker_words(case, w) for w in stuck[:4]),
            *others,
            *_parent_holds(case, view, first),
            *case.others_wait([view.rank]),
        ],
        _cause(first),
        _next_steps(case, view, first),
    )
    return Hit(finding, [view.rank])


def _worker_words(case: Case, worker: Worker) -> str:
    window = worker.activity.window_s if worker.activity is not None else 0.0
    on = _on(worker)
    state = worker.activity.state if worker.activity is not None else ""
    words = text("worker {pid} {phrase} at {at}", pid=worker.pid, phrase=phrase(worker.seen), at=case.at(worker.seen))
    if on and on not in words:
        words += text(", on {on}", on=on)
    if state in ("T", "t"):
        return words + text("; it is stopped (state {state})", state=state)
    return words + text("; the same at every look, {window:.1f} s without CPU", window=window) if window else words


def _parent_holds(case: Case, view: View, worker: Worker) -> list[str]:
    """A lock that a thread of the parent held at the fork is locked for ever in the child."""
    if worker.seen.kind != "lock" or worker.seen.frame is None:
        return []
    frame = worker.seen.frame
    line = case.sources.get(f"{frame.file}:{frame.line}")
    for thread in view.threads:
        for f in thread.frames:
            held = case.sources.get(f"{f.file}:{f.line}") if not f.library else None
            if line is not None and held is not None and set(line.takes) & set(held.within):
                return [
                    text(
                        "in rank {rank} itself, thread {name} holds {takes} at {short_place}: the worker was forked with "
                        "the lock taken, and nobody in the worker can release it",
                        rank=view.rank,
                        name=thread.name,
                        takes=line.takes[0],
                        short_place=short_place(f),
                    )
                ]
    return []


def _cause(worker: Worker) -> str:
    if _for_good(worker):
        return text("The worker has been stopped by a signal or a debugger.")
    causes = {
        "file": text(
            "The file does not come: a network file system that does not answer, a pipe that nobody fills, "
            "or a lock on it."
        ),
        "network": text("The server took the request and does not answer, and the request has no time-out."),
        "lock": text(
            "The lock is never released in the worker; most often it was held by another thread of the "
            "parent when the worker was forked."
        ),
        "process": text("It waits for a process of its own that has died or is stuck itself."),
    }
    kind = {"pipe": "file", "native": "lock", "child": "process"}.get(worker.seen.kind, worker.seen.kind)
    return causes.get(
        kind,
        text("The dataset's code in the worker waits for something that does not come."),
    )


def _next_steps(case: Case, view: View, worker: Worker) -> list[str]:
    at, on = short_place(worker.seen.frame), _on(worker)
    if _for_good(worker):
        return [text("Let it go on: kill -CONT {pid}", pid=worker.pid)]
    first = {
        "file": text("Check {on} and its mount (`ls -l`, `df`, `mount`).", on=on or text("the file")),
        "network": text(
            "Check the server behind {on}; put a time-out on the request at {at}.",
            on=on or text("the connection"),
            at=at,
        ),
        "lock": text(
            "Create the lock in the worker (worker_init_fn), or use multiprocessing_context='spawn' or "
            "'forkserver' for the DataLoader."
        ),
    }.get(
        {"native": "lock", "pipe": "file"}.get(worker.seen.kind, worker.seen.kind),
        text("Look at what {at} waits for.", at=at),
    )
    return [
        first,
        text(
            "Give the DataLoader timeout=60: then such a wait ends in an exception that names the worker, "
            "instead of a hang."
        ),
        text(
            "To end this run cleanly: kill {pid}; rank {rank} then raises 'DataLoader worker exited unexpectedly'.",
            pid=worker.pid,
            rank=view.rank,
        ),
    ]


def _waits(case: Case, view: View, workers: Sequence[Worker]) -> Hit:
    """No worker is stuck: all idle (a batch was lost), slow, or none is seen."""
    working = [w for w in workers if not w.idle]
    if workers and not working:
        said = text("all its workers are idle: the batch that it waits for is in nobody's hands")
        cause = text(
            "A batch got lost on its way: a worker was replaced or killed, the pin-memory thread ended, or "
            "an index queue was filled by another process."
        )
    elif workers:
        said = text("{count} of its {count2} workers are at work on it", count=len(working), count2=len(workers))
        cause = (
            text("Whether the workers get on, one look does not tell.")
            if case.seen_once
            else text("The workers get on, slower than the training needs.")
        )
    else:
        said = text("no worker process is to be seen")
        cause = text("Its workers have ended, or run where we cannot look.")
    where = working[0].seen.frame if working and working[0].seen.frame else view.now.frame
    slow = bool(working)
    finding = Finding(
        "dataloader_wait",
        "warning" if slow else "critical",
        text("Rank {rank} waits for the next batch from its DataLoader", rank=view.rank),
        (*rank_subjects([view.rank]), *(Subject("loader_worker", w.pid) for w in working[:8])),
        place(where),
        [said, *(_slow_words(case, w) for w in working[:4]), *_shm(case, view), *case.others_wait([view.rank])],
        cause,
        [
            text("More workers (num_workers), persistent_workers=True, prefetch_factor, or cheaper work per sample.")
            if slow
            else text(
                "See `df -h /dev/shm` and the rank's log for a worker that was killed; restart from a checkpoint."
            ),
            text("Give the DataLoader timeout=60, so that a lost batch becomes an exception."),
        ],
        confidence="medium",
    )
    return Hit(finding, [view.rank])


def _slow_words(case: Case, worker: Worker) -> str:
    if worker.activity is None:
        at = case.at(worker.seen)
        return text("worker {pid} {phrase} at {at}", pid=worker.pid, phrase=phrase(worker.seen), at=at)
    return text(
        "worker {pid} {phrase} at {at}, {share:.0%} of a CPU",
        pid=worker.pid,
        phrase=phrase(worker.seen),
        at=case.at(worker.seen),
        share=worker.activity.cpu_share,
    )


def _shm(case: Case, view: View) -> list[str]:
    host = case.host(view)
    free = host.shm_free_bytes if host is not None else None
    if free is None or isinstance(free, NotAvailable) or free >= FEW_BYTES:
        return []
    return [text("/dev/shm has {free:.0f} MiB left", free=free / 2**20)]
