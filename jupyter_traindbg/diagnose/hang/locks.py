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

EXPLAINS = {"lock_wait": ("io_wait", "python_wait", "unequal_steps", "collective_not_issued", "straggler")}
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
                "This run cannot go on: save it with `traindbg checkpoint TARGET DIR`, then restart with the "
                "mended code."
            )
        ],
    )
    return Hit(finding, [view.rank])


def _by_name() -> str:
    return text(
        "who holds what is read from the source, by the names of the locks: two of the same name would be taken for one"
    )


def _lock_wait(case: Case, view: View, mine: ThreadLocks, threads: Sequence[ThreadLocks]) -> Hit:
    holder = next((t for t in threads if t is not mine and _same(mine.waits, t.holds)), None)
    lock = mine.waits[0][1] if mine.waits else text("a lock")
    if holder is not None:
        title = text(
            "Rank {rank} waits for {lock}, held by its {named} at {short_place}",
            rank=view.rank,
            lock=lock,
            named=_named(holder),
            short_place=short_place(holder.seen.frame),
        )
        held = [_thread_words(case, holder, [mine])]
        step = text(
            "Let {named} finish or give up: put a time-out on what it does at {short_place}, outside of the lock.",
            named=_named(holder),
            short_place=short_place(holder.seen.frame),
        )
    else:
        title = text(
            "Rank {rank} waits for {lock} at {short_place}",
            rank=view.rank,
            lock=lock,
            short_place=short_place(view.now.frame),
        )
        others = [t for t in threads if t is not mine and t.seen.users is not None]
        held = [
            text("who holds it cannot be seen: no other thread stands inside a `with` of it"),
            *(_thread_words(case, t) for t in others[:4]),
        ]
        step = text(
            "Look for a path that takes this lock and leaves without releasing it (an exception after "
            "acquire(), a fork, a thread that has ended)."
        )
    finding = Finding(
        "lock_wait",
        "critical",
        title,
        rank_subjects([view.rank]),
        place(view.now.frame),
        [_thread_words(case, mine), *held, *case.others_wait([view.rank])],
        text("The training thread cannot go on before the lock is released."),
        [
            step,
            text("Use `with lock:`, and lock.acquire(timeout=...) where a wait must not last."),
        ],
        confidence="high" if holder is not None else "medium",
    )
    return Hit(finding, [view.rank])


def _named(one: ThreadLocks) -> str:
    if one.thread.training:
        return text("the training thread")
    return text("thread {name}", name=one.thread.name)


def _thread_words(case: Case, one: ThreadLocks, waiters: Sequence[ThreadLocks] = ()) -> str:
    """What a thread does, and which locks it holds of those that `waiters` wait for."""
    wanted = [lock for waiter in waiters for lock in waiter.waits]
    holds = ", ".join(dict.fromkeys(held[1] for held in one.holds if any(_one_lock(lock, held) for lock in wanted)))
    keeps = text(", holding {holds}", holds=holds) if holds else ""
    waits = ", ".join(name for _, name in one.waits)
    does = text("waits for {waits}", waits=waits) if waits else phrase(one.seen)
    return text("{named} {does} at {at}{keeps}", named=_named(one), does=does, at=case.at(one.seen), keeps=keeps)
