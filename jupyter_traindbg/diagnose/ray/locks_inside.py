"""A worker whose threads wait for each other's locks: it will never come back, however long one waits.

Who holds a lock is told by the agent inside, where it was asked; else by the source: a thread that stands inside ``with self.lock:`` holds
what is written there (see `hang.locks`). The threads must have stood still over the whole look.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...frames.whose import own_frames
from ...language import text
from ...model import RayLockWait, RayWorker, Thread
from ..hang.doing import phrase
from ..hang.locks import ThreadLocks, cycle, thread_locks
from ..hang.motion import FLOWING_SWITCHES, thread_activity
from ..hang.ranks import View
from ..hang.words import and_list, place, short_place
from .case import Hit, RayCase, hit
from .peers import waiting_for
from .words import short


def rule(case: RayCase) -> list[Hit]:
    return [found for row in case.rows if (found := _inside(case, row)) is not None]


def _inside(case: RayCase, row: RayWorker) -> Hit | None:
    told = sorted((w for w in row.locks if w.cycle), key=lambda w: w.where != row.where)
    view = case.view(row)
    if told:
        return _hit(case, row, told[0].where, [w.thread for w in told], [_told_words(w) for w in told], sure=True)
    if view is None:
        return None
    ring = _ring(case, row, view)
    if not ring:
        return None
    words = [_thread_words(case, row, one, ring) for one in ring]
    sure = len(ring) > 1 and all(one.seen.kind == "lock" for one in ring)
    if not sure:
        words.append(text("who holds what is read from the source, by the names"))
    return _hit(case, row, place(ring[0].seen.frame), [_name(one) for one in ring], words, sure=sure)


def _ring(case: RayCase, row: RayWorker, view: View) -> list[ThreadLocks]:
    """The threads that wait for each other, the one that runs the worker's method first where it is one of them."""
    still = [t for t in view.threads if _stood(view, t)]
    threads = [thread_locks(t, case.sources(row)) for t in still]
    for one in sorted(threads, key=lambda t: not t.thread.training):
        ring = cycle(one, threads) if one.waits else []
        if len(ring) > 1 or (ring and _own_object(case, row, one)):
            return ring
    return []


def _stood(view: View, thread: Thread) -> bool:
    """Whether it was at the same place at every look, and asleep between them.

    An agent of ours that comes in or leaves, ours or another notebook's, wakes a thread that waits for a lock a few times (4 measured).
    Who slept for the whole window stood still, even where a busy machine gave time for one look only.
    """
    activity = thread_activity(view.activity, thread, view.pid)
    if activity is None or activity.switches >= FLOWING_SWITCHES or not view.evidence.looks:
        return False
    for look in view.evidence.looks:
        own = next((p for p in look.processes if p.pid == view.pid), None)
        if own is None or not any(t.tid == thread.tid and t.frames == thread.frames for t in own.threads):
            return False
    return True


def _own_object(case: RayCase, row: RayWorker, one: ThreadLocks) -> bool:
    """Whether the lock that it holds itself is likely the same object: taken further out in a method of the same class."""
    sources, wanted = case.sources(row), {name for _, name in one.waits}
    frames = [f for f in own_frames(one.thread.frames) if not f.library]
    classes = {f.function.rpartition(".")[0] for f in frames if _holds(sources, f"{f.file}:{f.line}", wanted)}
    return bool(frames) and frames[0].function.rpartition(".")[0] in classes


def _holds(sources: object, line: str, wanted: set[str]) -> bool:
    seen = sources.get(line) if isinstance(sources, dict) else None
    return seen is not None and bool(wanted & set(seen.within))


# --- words ---------------------------------------------------------------------------------------------------------


def _name(one: ThreadLocks) -> str:
    return one.thread.name


def _thread_words(case: RayCase, row: RayWorker, one: ThreadLocks, ring: Sequence[ThreadLocks]) -> str:
    wanted = {name for other in ring for _, name in other.waits}
    holds = ", ".join(dict.fromkeys(name for _, name in one.holds if name in wanted))
    keeps = text(", holding {holds}", holds=holds) if holds else ""
    waits = ", ".join(name for _, name in one.waits)
    does = text("waits for {waits}", waits=waits) if waits else phrase(one.seen)
    frame = one.seen.frame
    line = case.sources(row).get(f"{frame.file}:{frame.line}") if frame is not None else None
    at = short_place(frame) + (f": `{line.text}`" if line is not None else "")
    return text("thread {name} {does} at {at}{keeps}", name=_name(one), does=does, at=at, keeps=keeps)


def _told_words(wait: RayLockWait) -> str:
    at, held = short(wait.where), short(wait.holder_where)
    return text(
        "thread {thread} waits for {lock} at {at}, held by thread {holder} at {held}",
        thread=wait.thread,
        lock=wait.lock,
        at=at,
        holder=wait.holder,
        held=held,
    )


def _hit(
    case: RayCase, row: RayWorker, where: str | None, threads: Sequence[str], words: Sequence[str], *, sure: bool
) -> Hit:
    alone = len(set(threads)) == 1
    who = and_list(list(dict.fromkeys(threads)))
    title = text("Deadlock inside {who}: threads {who2} wait for each other's locks", who=row.who, who2=who)
    if alone:
        title = text(
            "Deadlock inside {who}: thread {who2} waits for a lock that it holds itself", who=row.who, who2=who
        )
    cause = text(
        "Locks are taken in different orders, each thread holding what the other needs: this never ends by itself."
    )
    return hit(
        "ray_worker_deadlock",
        "critical",
        title,
        [row],
        where,
        evidence=[*words, _since(row), *waiting_for(case, [row])],
        cause=cause,
        next_steps=[
            text(
                "Give up this call and keep the actor: `traindbg ray-rescue --interrupt {who}`; where the lock "
                "does not let go, kill this one worker (`--kill-actor {who}`).",
                who=row.who,
            ),
            text("In the code: take these locks in one order everywhere, or use one lock."),
        ],
        confidence="high" if sure else "medium",
    )


def _since(row: RayWorker) -> str:
    return f"{row.who}: {row.words}" if row.words else ""
