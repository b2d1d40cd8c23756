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
    others = (
        [text(f"its other workers have nothing to do: {', '.join(idle)}", f"其余 worker 空闲：{', '.join(idle)}")]
        if idle
        else []
    )
    workers_are = f"worker {pids} is" if len(stuck) == 1 else f"workers {pids} are"
    title = text(
        f"Rank {view.rank} waits for a batch: its DataLoader {workers_are} stuck at {at}",
        f"rank {view.rank} 在等待 batch：其 DataLoader worker {pids} 卡在 {at}",
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
    words = text(
        f"worker {worker.pid} {phrase(worker.seen)} at {case.at(worker.seen)}",
        f"worker {worker.pid} {phrase(worker.seen)}，位于 {case.at(worker.seen)}",
    )
    if on and on not in words:
        words += text(f", on {on}", f"，对象为 {on}")
    if state in ("T", "t"):
        return words + text(f"; it is stopped (state {state})", f"；它已被停止（状态 {state}）")
    return (
        words
        + text(
            f"; the same at every look, {window:.1f} s without CPU", f"；每次观察都相同，{window:.1f} 秒内未使用 CPU"
        )
        if window
        else words
    )


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
                        f"in rank {view.rank} itself, thread {thread.name} holds {line.takes[0]} at "
                        f"{short_place(f)}: the worker was forked with "
                        "the lock taken, and nobody in the worker can release it",
                        f"在 rank {view.rank} 自身中，线程 {thread.name} 在 {short_place(f)} 持有 {line.takes[0]}："
                        "worker 在锁被占用时 fork 出来，其中无人能释放它",
                    )
                ]
    return []


def _cause(worker: Worker) -> str:
    if _for_good(worker):
        return text("The worker has been stopped by a signal or a debugger.", "该 worker 已被信号或调试器停止。")
    causes = {
        "file": text(
            "The file does not come: a network file system that does not answer, a pipe that nobody fills, or a "
            "lock on it.",
            "文件读取没有返回：网络文件系统无响应、管道无人写入，或文件被锁定。",
        ),
        "network": text(
            "The server took the request and does not answer, and the request has no time-out.",
            "服务器接受了请求但没有应答，且请求没有设置超时。",
        ),
        "lock": text(
            "The lock is never released in the worker; most often it was held by another thread of the parent when "
            "the worker was forked.",
            "该锁在 worker 中永远不会被释放；最常见的原因是 fork 时父进程的另一个线程持有它。",
        ),
        "process": text(
            "It waits for a process of its own that has died or is stuck itself.",
            "它在等待自己的子进程，而该子进程已死亡或自身卡住。",
        ),
    }
    kind = {"pipe": "file", "native": "lock", "child": "process"}.get(worker.seen.kind, worker.seen.kind)
    return causes.get(
        kind,
        text(
            "The dataset's code in the worker waits for something that does not come.",
            "worker 中的数据集代码在等待不会到来的东西。",
        ),
    )


def _next_steps(case: Case, view: View, worker: Worker) -> list[str]:
    at, on = short_place(worker.seen.frame), _on(worker)
    if _for_good(worker):
        return [text(f"Let it go on: kill -CONT {worker.pid}", f"让它继续：kill -CONT {worker.pid}")]
    first = {
        "file": text(
            f"Check {on or 'the file'} and its mount (`ls -l`, `df`, `mount`).",
            f"检查 {on or '该文件'} 及其挂载点（`ls -l`、`df`、`mount`）。",
        ),
        "network": text(
            f"Check the server behind {on or 'the connection'}; put a time-out on the request at {at}.",
            f"检查 {on or '该连接'} 对端的服务器；在 {at} 的请求上设置超时。",
        ),
        "lock": text(
            "Create the lock in the worker (worker_init_fn), or use multiprocessing_context='spawn' or 'forkserver' "
            "for the DataLoader.",
            "在 worker 内创建锁（worker_init_fn），或为 DataLoader 使用 multiprocessing_context='spawn' 或 "
            "'forkserver'。",
        ),
    }.get(
        {"native": "lock", "pipe": "file"}.get(worker.seen.kind, worker.seen.kind),
        text(f"Look at what {at} waits for.", f"查看 {at} 在等待什么。"),
    )
    return [
        first,
        text(
            "Give the DataLoader timeout=60: then such a wait ends in an exception that names the worker, instead "
            "of a hang.",
            "为 DataLoader 设置 timeout=60：这样的等待会以指明 worker 的异常结束，而不是挂起。",
        ),
        text(
            f"To end this run cleanly: kill {worker.pid}; rank {view.rank} then raises 'DataLoader worker exited "
            "unexpectedly'.",
            f"要干净地结束本次运行：kill {worker.pid}；rank {view.rank} 随后会抛出 'DataLoader worker exited "
            "unexpectedly'。",
        ),
    ]


def _waits(case: Case, view: View, workers: Sequence[Worker]) -> Hit:
    """No worker is stuck: all idle (a batch was lost), slow, or none is seen."""
    working = [w for w in workers if not w.idle]
    if workers and not working:
        said = text(
            "all its workers are idle: the batch that it waits for is in nobody's hands",
            "其所有 worker 都空闲：它等待的 batch 不在任何 worker 手中",
        )
        cause = text(
            "A batch got lost on its way: a worker was replaced or killed, the pin-memory thread ended, or an index "
            "queue was filled by another process.",
            "batch 在途中丢失：worker 被替换或杀死、pin-memory 线程已结束，或索引队列被其他进程写入。",
        )
    elif workers:
        said = text(
            f"{len(working)} of its {len(workers)} workers are at work on it",
            f"其 {len(workers)} 个 worker 中有 {len(working)} 个正在处理",
        )
        cause = text("The workers get on, slower than the training needs.", "worker 在推进，但慢于训练所需。")
    else:
        said = text("no worker process is to be seen", "看不到任何 worker 进程")
        cause = text(
            "Its workers have ended, or run where we cannot look.", "其 worker 已结束，或运行在我们无法查看之处。"
        )
    where = working[0].seen.frame if working and working[0].seen.frame else view.now.frame
    slow = bool(working)
    finding = Finding(
        "dataloader_wait",
        "warning" if slow else "critical",
        text(
            f"Rank {view.rank} waits for the next batch from its DataLoader",
            f"rank {view.rank} 在等待 DataLoader 的下一个 batch",
        ),
        (*rank_subjects([view.rank]), *(Subject("loader_worker", w.pid) for w in working[:8])),
        place(where),
        [said, *(_slow_words(case, w) for w in working[:4]), *_shm(case, view), *case.others_wait([view.rank])],
        cause,
        [
            text(
                "More workers (num_workers), persistent_workers=True, prefetch_factor, or cheaper work per sample.",
                "增加 num_workers，使用 persistent_workers=True、prefetch_factor，或降低单个样本的处理开销。",
            )
            if slow
            else text(
                "See `df -h /dev/shm` and the rank's log for a worker that was killed; restart from a checkpoint.",
                "查看 `df -h /dev/shm` 以及日志中是否有 worker 被杀；从检查点重启。",
            ),
            text(
                "Give the DataLoader timeout=60, so that a lost batch becomes an exception.",
                "为 DataLoader 设置 timeout=60，使丢失的 batch 变为异常。",
            ),
        ],
        confidence="medium",
    )
    return Hit(finding, [view.rank])


def _slow_words(case: Case, worker: Worker) -> str:
    share = worker.activity.cpu_share if worker.activity is not None else 0.0
    return text(
        f"worker {worker.pid} {phrase(worker.seen)} at {case.at(worker.seen)}, {share:.0%} of a CPU",
        f"worker {worker.pid} {phrase(worker.seen)}，位于 {case.at(worker.seen)}，占用 {share:.0%} CPU",
    )


def _shm(case: Case, view: View) -> list[str]:
    for host in case.evidence.hosts:
        free = host.shm_free_bytes
        if host.name == view.evidence.host and not isinstance(free, NotAvailable) and free < 64 * 2**20:
            return [text(f"/dev/shm has {free / 2**20:.0f} MiB left", f"/dev/shm 仅剩 {free / 2**20:.0f} MiB")]
    return []
