"""A rank whose training thread waits for something that is not another rank: a file, a server, a person, a program, a thread, or time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from ...language import text
from ...model import Finding, Frame, Thread, rank_subjects
from ...words.ranks import ranks_words
from .case import Case, Hit, View
from .doing import Doing, Kind, doing, phrase
from .words import alike, place, short_place

EXPLAINS = {
    "io_wait": ("unequal_steps", "collective_not_issued", "straggler"),
    "python_wait": ("unequal_steps", "collective_not_issued"),
}
_IO: frozenset[Kind] = frozenset({"file", "network", "pipe", "device"})
_ELSEWHERE: frozenset[Kind] = frozenset({"loader", "lock", "computing", "gil", "gpu"})
"""Kinds with a rule of their own."""


def rule(case: Case) -> list[Hit]:
    """One finding for all ranks that wait for the same at the same line."""
    at_ray = case.at_ray
    free = [v for v in case.blocked if v.holder is None and v.now.kind not in _ELSEWHERE and v not in at_ray]
    leaving = [v for v in free if _shutting_down(v)]
    hits = [_cannot_end(case, v) for v in leaving]
    others = [v for v in free if v not in leaving]
    return hits + [_hit(case, same) for same in alike(others, lambda v: (v.now.kind, v.now.wait, v.now.frame))]


def _hit(case: Case, same: Sequence[View]) -> Hit:
    view, ranks = same[0], [v.rank for v in same]
    seen = view.now
    at = short_place(seen.frame)
    io = seen.kind in _IO
    title = text(
        f"{ranks_words(ranks).capitalize()} {_verb(seen, len(same))} at {at} while the others wait",
        f"{ranks_words(ranks)} {phrase(seen)}，位于 {at}，其余 rank 在等待",
    )
    if not case.waiting:
        title = text(
            f"{ranks_words(ranks).capitalize()} {_verb(seen, len(same))} at {at}",
            f"{ranks_words(ranks)} {phrase(seen)}，位于 {at}",
        )
    finding = Finding(
        "io_wait" if io else "python_wait",
        "critical",
        title,
        rank_subjects(ranks),
        place(seen.frame),
        [*(_words(case, v) for v in same[:4]), *_threads(case, view), *case.others_wait(ranks)],
        _cause(seen, case.source_of(seen)),
        _next_steps(case, view),
        confidence=_confidence(case, seen),
    )
    return Hit(finding, ranks)


def _verb(seen: Doing, many: int) -> str:
    words = phrase(seen)
    first, _, rest = words.partition(" ")
    if many == 1 or first not in ("waits", "waits,", "sleeps"):
        return words
    return " ".join(filter(None, (first.rstrip(",").removesuffix("s"), rest)))


def _confidence(case: Case, seen: Doing) -> Literal["high", "medium", "low"]:
    if seen.kind in ("native", "unknown") or seen.users is None:
        return "low"
    return "high" if case.waiting else "medium"  # alone, nothing shows that the wait is in anybody's way


def _words(case: Case, view: View) -> str:
    seen, training, activity = view.now, view.training, view.activity
    words = text(
        f"rank {view.rank} {phrase(seen)} at {case.at(seen)}", f"rank {view.rank} {phrase(seen)}，位于 {case.at(seen)}"
    )
    if training is not None and activity is not None:
        call = f"{training.call}({training.on})" if training.on else training.call
        inside = text(f" in {call}" if call else "", f"，系统调用 {call}" if call else "")
        words += text(
            f"; thread {training.tid}{inside} used {training.cpu_share:.0%} of a CPU in {activity.window_s:.1f} s",
            f"；线程 {training.tid}{inside}，{activity.window_s:.1f} 秒内使用 {training.cpu_share:.0%} CPU",
        )
    return words


def _threads(case: Case, view: View) -> list[str]:
    """What the rank's other threads with code of the user do: the one that should have delivered may be among them, or missing."""
    if view.now.kind not in ("queue", "thread", "future", "idle"):
        return []
    others = [(t, doing(t, case.sources)) for t in view.threads if t != view.now.thread]
    told = [
        text(f"its thread {t.name} {phrase(d)} at {case.at(d)}", f"其线程 {t.name} {phrase(d)}，位于 {case.at(d)}")
        for t, d in others
        if d.users is not None
    ]
    none = text(
        "no other thread of this rank runs code of the user: who should have delivered has ended",
        "该 rank 没有其他线程在运行用户代码：应当交付结果的线程已结束",
    )
    return told[:4] or ([] if view.now.kind == "idle" else [none])


# --- causes --------------------------------------------------------------------------------------------------------


def _cause(seen: Doing, source: str) -> str:
    causes: Mapping[Kind, str] = {
        "file": text(
            "The file does not come: a network file system that does not answer, a pipe that nobody fills, a lock "
            "on it.",
            "文件读取没有返回：网络文件系统无响应、管道无人写入，或文件被锁定。",
        ),
        "pipe": text(
            "Nobody writes to the pipe that it reads, or nobody reads what it writes.",
            "它读取的管道无人写入，或它写入的管道无人读取。",
        ),
        "network": text(
            "The other side does not answer, and the request has no time-out.", "对端没有应答，且请求没有设置超时。"
        ),
        "device": text("The device or its driver does not answer.", "设备或其驱动没有响应。"),
        "sleep": text(
            "The code sleeps: it waits for something to change, or goes on trying.",
            "代码在休眠：在等待某个条件改变，或不断重试。",
        ),
        "terminal": text("It asks a person, and nobody answers at its terminal.", "它在询问用户，而终端上无人回答。"),
        "child": text(
            "It waits for a program or a process that it has started itself, and that one does not end.",
            "它在等待自己启动的程序或进程，而该进程没有结束。",
        ),
        "queue": text(
            "It waits for an item that another thread of the process should put into a queue, or for room in one; "
            "that thread has ended or waits itself.",
            "它在等待进程内另一个线程放入队列的元素（或队列空位）；该线程已结束或自身也在等待。",
        ),
        "thread": text(
            "It waits for another thread of the process, which has not done its part.",
            "它在等待进程内的另一个线程，而该线程尚未完成其部分。",
        ),
        "future": text(
            "It waits for the result of work that it gave to a pool, and that does not end.",
            "它在等待提交给线程池的任务结果，而该任务没有结束。",
        ),
        "process": text(
            "It waits for another process that has died or is stuck itself.", "它在等待另一个已死亡或自身卡住的进程。"
        ),
        "idle": text(
            "None of its coroutines can go on: what they wait for does not come, or runs in a thread or a program that is stuck itself.",
            "其所有协程都无法继续：所等待的事情没有发生，或运行在自身卡住的线程或程序中。",
        ),
        "ray": text(
            "It waits for a result from Ray: an actor that died, or work for which there is no room in the cluster.",
            "它在等待 Ray 的结果：actor 已死亡，或集群中没有可用资源。",
        ),
        "gpu": text("It waits for the GPU to finish what it was given.", "它在等待 GPU 完成已提交的工作。"),
    }
    if seen.kind == "network" and "accept" in source:
        return text("It waits for somebody to connect, and nobody does.", "它在等待连接，而无人连接。")
    return causes.get(
        seen.kind,
        text("It waits inside C code; the stack does not say for what.", "它在 C 代码中等待；调用栈没有说明等待什么。"),
    )


def _next_steps(case: Case, view: View) -> list[str]:
    seen, training = view.now, view.training
    at = short_place(seen.frame)
    on = training.on if training is not None and training.on else ""
    native = text(
        f"See the native stack: py-spy dump --native --pid {view.pid}",
        f"查看本地调用栈：py-spy dump --native --pid {view.pid}",
    )
    steps: Mapping[Kind, str] = {
        "file": text(
            f"Check {on or 'the file'} and its mount (`ls -l`, `df`, `mount`).",
            f"检查 {on or '该文件'} 及其挂载点（`ls -l`、`df`、`mount`）。",
        ),
        "pipe": text(
            f"See who holds the other end of {on or 'the pipe'}: lsof -p {view.pid}",
            f"查看谁持有 {on or '该管道'} 的另一端：lsof -p {view.pid}",
        ),
        "network": text(
            f"Check the server behind {on or 'the connection'}; put a time-out on the request at {at}.",
            f"检查 {on or '该连接'} 对端的服务器；在 {at} 的请求上设置超时。",
        ),
        "sleep": text(
            f"See at {at} what it waits for, and bring that about; give such a loop an end.",
            f"查看 {at} 在等待什么并使其发生；为此类循环设置终止条件。",
        ),
        "terminal": text(
            "Answer at its terminal; for the next run take the question out, or answer it on one rank before the "
            "start.",
            "在其终端回答；下次运行时去掉该询问，或在启动前于单个 rank 上回答。",
        ),
        "child": text(
            f"See {on or 'the program'}: pstree -p {view.pid}; ending it lets the rank go on.",
            f"查看 {on or '该程序'}：pstree -p {view.pid}；结束它可使该 rank 继续。",
        ),
        "idle": text(
            f"Put asyncio.timeout() round what the coroutines below {at} wait for; from Python 3.14 on `python -m asyncio pstree "
            f"{view.pid}` shows them.",
            f"为 {at} 之下的协程所等待的操作加上 asyncio.timeout()；Python 3.14 起可用 `python -m asyncio pstree {view.pid}` 查看它们。",
        ),
        "queue": text(
            "See in the log whether the thread that fills the queue ended with an exception; use get(timeout=...) "
            f"at {at}.",
            f"查看日志中填充队列的线程是否因异常结束；在 {at} 使用 get(timeout=...)。",
        ),
    }
    hold = text(
        f"Put a time-out on the wait at {at}, or do this work outside of the step: while it lasts all ranks stand "
        "still.",
        f"为 {at} 的等待设置超时，或在训练步之外执行：等待期间所有 rank 都停住。",
    )
    return [steps.get(seen.kind, native), hold]


# --- a process that has finished and cannot end --------------------------------------------------------------------


def _shutting_down(view: View) -> bool:
    """The main thread is past the end of the program, in `threading._shutdown`, which joins every thread that is no daemon."""
    frames = view.now.thread.frames if view.now.thread is not None else ()
    return view.now.users is None and any(
        f.function.rsplit(".", 1)[-1] == "_shutdown" and f.file.endswith("threading.py") for f in frames
    )


def _cannot_end(case: Case, view: View) -> Hit:
    left = [(t, doing(t, case.sources)) for t in view.threads if t != view.now.thread]
    mine = [(t, d) for t, d in left if d.users is not None]
    frame: Frame | None = mine[0][1].frame if mine else None
    names = ", ".join(t.name for t, _ in mine) or text("a thread of a library", "某个库的线程")
    finding = Finding(
        "python_wait",
        "critical",
        text(
            f"Rank {view.rank} has finished, but its process cannot end: thread {names} is still there",
            f"rank {view.rank} 已完成，但其进程无法结束：线程 {names} 仍在运行",
        ),
        rank_subjects([view.rank]),
        place(frame),
        [
            text(
                "its main thread is past the end of the program and joins the threads that are no daemons",
                "其主线程已到达程序末尾，正在等待非守护线程结束",
            ),
            *(_thread_at(case, t, d) for t, d in mine[:4]),
            *case.others_wait([view.rank]),
        ],
        text(
            "Python ends a process only when all threads that are no daemons have ended.",
            "只有所有非守护线程结束后，Python 才会结束进程。",
        ),
        [
            text(
                f"Tell thread {names} to stop before the program ends (put a sentinel into its queue), or start it "
                "with daemon=True.",
                f"在程序结束前通知线程 {names} 停止（例如向其队列放入结束标记），或以 daemon=True 启动它。",
            ),
            text(
                f"This run is over: kill {view.pid} loses nothing that the training still does.",
                f"本次运行已结束：kill {view.pid} 不会丢失训练成果。",
            ),
        ],
    )
    return Hit(finding, [view.rank])


def _thread_at(case: Case, thread: Thread, seen: Doing) -> str:
    return text(
        f"thread {thread.name} {phrase(seen)} at {case.at(seen)}",
        f"线程 {thread.name} {phrase(seen)}，位于 {case.at(seen)}",
    )
