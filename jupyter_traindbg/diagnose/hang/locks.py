"""Locks inside one rank: who waits for one, who holds it, and whether that can ever end.

Who holds a lock is told by the source: a thread that stands inside ``with self.lock:`` holds what is written there. Names are compared as
written, so that two different locks of one name are taken for one: the confidence says so. The graph is over the threads of one process;
a cycle in it is a deadlock (Coffman, Elphick and Shoshani, Computing Surveys 3, 1971).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...frames.whose import cells_of, own_frames
from ...language import text
from ...model import Finding, Frame, SourceLine, Thread, rank_subjects
from .case import Case, Hit, View
from .deadlock import deadlock
from .doing import Doing, doing, phrase
from .file_locks import is_file_lock
from .words import place, short_place

__all__ = ["EXPLAINS", "ThreadLocks", "cycle", "rule", "thread_locks"]

EXPLAINS = {"lock_wait": ("unequal_steps", "collective_not_issued", "straggler")}
_FOR_A_THREAD = frozenset({"lock", "native", "thread", "queue", "future"})
GENERIC = frozenset({"lock", "_lock", "mutex", "_mutex", "mu", "cond", "condition"})
"""Last names that say nothing: with these the whole expression has to be the same, or the file."""


@dataclass(frozen=True)
class ThreadLocks:
    """One thread: what it does, the locks that it waits for and that it holds, as ``(module, expression)``."""

    thread: Thread
    seen: Doing
    waits: Sequence[tuple[str, str]] = ()
    holds: Sequence[tuple[str, str]] = ()


def rule(case: Case) -> list[Hit]:
    """Of ranks whose training thread waits for a lock, an event, a queue or a thread of its own process."""
    hits = []
    for view in case.blocked:
        if view.holder is not None or view.now.kind not in _FOR_A_THREAD or view.now.users is None:
            continue
        if is_file_lock(view.now):
            continue  # its holder is another process
        threads = [thread_locks(t, case.sources) for t in view.threads]
        mine = next((t for t in threads if t.thread == view.now.thread), None)
        if mine is None:
            continue
        ring = cycle(mine, threads)
        if ring:
            hits.append(_deadlock(case, view, ring))
        elif view.now.kind == "lock":
            hits.append(_lock_wait(case, view, mine, threads))
    return hits


# --- the graph -----------------------------------------------------------------------------------------------------


def thread_locks(thread: Thread, sources: Mapping[str, SourceLine]) -> ThreadLocks:
    """What the source says that `thread` waits for, at its innermost frame of the user, and holds, in all of them."""
    seen = doing(thread, sources)
    frames = [f for f in own_frames(thread.frames) if not f.library]
    holds = [(_module(f), name) for f in frames for name in _source(f, sources).within]
    waits = []
    if seen.kind in ("lock", "native", "thread") and seen.users is not None:
        waits = [(_module(seen.users), name) for name in _source(seen.users, sources).takes]
    return ThreadLocks(thread, seen, tuple(waits), tuple(holds))


def _module(frame: Frame) -> str:
    return cells_of(frame.file) or frame.file


def _source(frame: Frame, sources: Mapping[str, SourceLine]) -> SourceLine:
    return sources.get(f"{frame.file}:{frame.line}", SourceLine(""))


def cycle(start: ThreadLocks, threads: Sequence[ThreadLocks]) -> list[ThreadLocks]:
    """The threads that wait for each other, beginning with `start`; empty where there is no such ring. `start` alone: for its own lock."""
    path = [start]
    while True:
        owners = [t for t in threads if _same(path[-1].waits, t.holds)]
        owner = next((t for t in owners if t is start), owners[0] if owners else None)
        if owner is None:
            return []
        if owner is start:
            return path
        if owner in path:
            return []  # a ring further on, of which this thread is no part: it only waits for it
        path.append(owner)


def _same(waits: Sequence[tuple[str, str]], holds: Sequence[tuple[str, str]]) -> bool:
    return any(_one_lock(w, h) for w in waits for h in holds)


def _one_lock(waited: tuple[str, str], held: tuple[str, str]) -> bool:
    if waited[1] == held[1]:
        return waited[0] == held[0] or waited[1].rsplit(".", 1)[-1] not in GENERIC
    last = waited[1].rsplit(".", 1)[-1]
    return last == held[1].rsplit(".", 1)[-1] and last not in GENERIC


# --- findings ------------------------------------------------------------------------------------------------------


def _deadlock(case: Case, view: View, ring: Sequence[ThreadLocks]) -> Hit:
    alone = len(ring) == 1
    # `self.lock` further out may be that of another object of the same class
    sure = all(t.seen.kind == "lock" for t in ring) and not (alone and ring[0].waits[0][1].startswith("self."))
    finding = deadlock(
        view.rank,
        [_named(t) for t in ring],
        place(view.now.frame),
        [
            *(_thread_words(case, t, ring) for t in ring),
            *([] if sure else [_by_name()]),
            *case.others_wait([view.rank]),
        ],
        sure=sure,
        steps=[
            text(
                "This run cannot go on: save it with `traindbg checkpoint TARGET DIR`, then restart with the mended "
                "code.",
                "本次运行无法继续：用 `traindbg checkpoint TARGET DIR` 保存后，用修改后的代码重启。",
            )
        ],
    )
    return Hit(finding, [view.rank])


def _by_name() -> str:
    return text(
        "who holds what is read from the source, by the names of the locks: two of the same name would be taken for one",
        "谁持有哪个锁是按锁的名称从源码中读出的：同名的两个锁会被视为同一个",
    )


def _lock_wait(case: Case, view: View, mine: ThreadLocks, threads: Sequence[ThreadLocks]) -> Hit:
    holder = next((t for t in threads if t is not mine and _same(mine.waits, t.holds)), None)
    lock = mine.waits[0][1] if mine.waits else text("a lock", "一个锁")
    if holder is not None:
        title = text(
            f"Rank {view.rank} waits for {lock}, held by its {_named(holder)} at {short_place(holder.seen.frame)}",
            f"rank {view.rank} 在等待 {lock}，它由 {_named(holder)} 持有，位于 {short_place(holder.seen.frame)}",
        )
        held = [_thread_words(case, holder, [mine])]
        step = text(
            f"Let {_named(holder)} finish or give up: put a time-out on what it does at "
            f"{short_place(holder.seen.frame)}, outside of the lock.",
            f"让 {_named(holder)} 完成或放弃：给它在 {short_place(holder.seen.frame)} 的操作加上超时，并移到锁外执行。",
        )
    else:
        title = text(
            f"Rank {view.rank} waits for {lock} at {short_place(view.now.frame)}",
            f"rank {view.rank} 在 {short_place(view.now.frame)} 等待 {lock}",
        )
        others = [t for t in threads if t is not mine and t.seen.users is not None]
        held = [
            text(
                "who holds it cannot be seen: no other thread stands inside a `with` of it",
                "无法看出谁持有它：没有其他线程处于它的 `with` 之内",
            ),
            *(_thread_words(case, t) for t in others[:4]),
        ]
        step = text(
            "Look for a path that takes this lock and leaves without releasing it (an exception after acquire(), a "
            "fork, a thread that has ended).",
            "查找获取该锁却未释放的路径（acquire() 之后抛出异常、fork、已结束的线程）。",
        )
    finding = Finding(
        "lock_wait",
        "critical",
        title,
        rank_subjects([view.rank]),
        place(view.now.frame),
        [_thread_words(case, mine), *held, *case.others_wait([view.rank])],
        text("The training thread cannot go on before the lock is released.", "训练线程在锁被释放之前无法继续。"),
        [
            step,
            text(
                "Use `with lock:`, and lock.acquire(timeout=...) where a wait must not last.",
                "使用 `with lock:`；不应长时间等待之处使用 lock.acquire(timeout=...)。",
            ),
        ],
        confidence="high" if holder is not None else "medium",
    )
    return Hit(finding, [view.rank])


def _named(one: ThreadLocks) -> str:
    if one.thread.training:
        return text("the training thread", "训练线程")
    return text(f"thread {one.thread.name}", f"线程 {one.thread.name}")


def _thread_words(case: Case, one: ThreadLocks, waiters: Sequence[ThreadLocks] = ()) -> str:
    """What a thread does, and which locks it holds of those that `waiters` wait for."""
    wanted = [lock for waiter in waiters for lock in waiter.waits]
    holds = ", ".join(dict.fromkeys(held[1] for held in one.holds if any(_one_lock(lock, held) for lock in wanted)))
    keeps = text(f", holding {holds}", f"，持有 {holds}") if holds else ""
    waits = ", ".join(name for _, name in one.waits)
    does = text(f"waits for {waits}", f"等待 {waits}") if waits else phrase(one.seen)
    return text(
        f"{_named(one)} {does} at {case.at(one.seen)}{keeps}", f"{_named(one)} {does}，位于 {case.at(one.seen)}{keeps}"
    )
