"""A rank whose training thread waits for something that is not another rank: a file, a server, a person, a program, a thread, or time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from ...language import text
from ...model import Finding, Frame, NotAvailable, Subject, Thread, rank_subjects
from ...words.ranks import ranks_words
from .below import Below, Child, below, does
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
    others = [(v, below(case, v)) for v in free if v not in leaving]
    return hits + [_hit(case, same) for same in alike(others, _alike)]


def _alike(one: tuple[View, Below]) -> tuple[object, ...]:
    view, own = one
    return view.now.kind, view.now.wait, view.now.frame, own.last and (own.last.state, own.last.seen.frame)


def _hit(case: Case, same: Sequence[tuple[View, Below]]) -> Hit:
    (view, own), views = same[0], [v for v, _ in same]
    ranks, seen, last = [v.rank for v in views], view.now, own.last
    finding = Finding(
        "io_wait" if seen.kind in _IO else "python_wait",
        "critical",
        _title(case, views, last),
        (*rank_subjects(ranks), *(Subject("process", b.last.pid) for _, b in same if b.last is not None)),
        place(seen.frame if last is None or last.seen.users is None else last.seen.frame),
        [
            *(_words(case, v) for v in views[:4]),
            *(line for v, b in same[:4] for line in b.words(case, v)),
            *([] if last is not None or own.idle else _threads(case, view)),
            *case.others_wait(ranks),
        ],
        _cause_below(case, own) or _cause(seen, case.source_of(seen)),
        [_step_below(own) or _step(seen, view.training.on if view.training else None, view.pid), _bound(seen)],
        confidence=_confidence(case, seen),
    )
    return Hit(finding, ranks)


def _title(case: Case, same: Sequence[View], last: Child | None) -> str:
    ranks, seen = ranks_words(v.rank for v in same), same[0].now
    verb, at = _verb(seen, len(same)), short_place(seen.frame)
    if last is not None:
        return text(
            "{ranks} {verb} at {at}, and process {pid} below it {does}",
            ranks=ranks.capitalize(),
            verb=verb,
            at=at,
            pid=last.pid,
            does=does(last),
            ranks2=ranks,
            phrase=phrase(seen),
        )
    if not case.waiting:
        return text(
            "{ranks} {verb} at {at}", ranks=ranks.capitalize(), verb=verb, at=at, ranks2=ranks, phrase=phrase(seen)
        )
    return text(
        "{ranks} {verb} at {at} while the others wait",
        ranks=ranks.capitalize(),
        verb=verb,
        at=at,
        ranks2=ranks,
        phrase=phrase(seen),
    )


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
    words = text("rank {rank} {phrase} at {at}", rank=view.rank, phrase=phrase(seen), at=case.at(seen))
    if training is not None and activity is not None:
        call = f"{training.call}({training.on})" if training.on else training.call
        inside = text(" in {call}", call=call) if call else ""
        words += text(
            "; thread {tid}{inside} used {cpu_share:.0%} of a CPU in {window_s:.1f} s",
            tid=training.tid,
            inside=inside,
            cpu_share=training.cpu_share,
            window_s=activity.window_s,
        )
    return words


def _threads(case: Case, view: View) -> list[str]:
    """What the rank's other threads with code of the user do: the one that should have delivered may be among them, or missing."""
    if view.now.kind not in ("queue", "thread", "future", "idle"):
        return []
    others = [(t, doing(t, case.sources)) for t in view.threads if t != view.now.thread]
    told = [
        text("its thread {name} {phrase} at {at}", name=t.name, phrase=phrase(d), at=case.at(d))
        for t, d in others
        if d.users is not None
    ]
    none = text("no other thread of this rank runs code of the user: who should have delivered has ended")
    return told[:4] or ([] if view.now.kind == "idle" else [none])


# --- causes --------------------------------------------------------------------------------------------------------


def _cause(seen: Doing, source: str) -> str:
    causes: Mapping[Kind, str] = {
        "file": text(
            "The file does not come: a network file system that does not answer, a pipe that nobody fills, a "
            "lock on it."
        ),
        "pipe": text("Nobody writes to the pipe that it reads, or nobody reads what it writes."),
        "network": text("The other side does not answer, and the request has no time-out."),
        "device": text("The device or its driver does not answer."),
        "sleep": text("The code sleeps: it waits for something to change, or goes on trying."),
        "terminal": text("It asks a person, and nobody answers at its terminal."),
        "child": text("It waits for a program or a process that it has started itself, and that one does not end."),
        "queue": text(
            "It waits for an item that another thread of the process should put into a queue, or for room in "
            "one; that thread has ended or waits itself."
        ),
        "thread": text("It waits for another thread of the process, which has not done its part."),
        "future": text("It waits for the result of work that it gave to a pool, and that does not end."),
        "process": text("It waits for another process that has died or is stuck itself."),
        "lock": text("Whoever has the lock does not let it go."),
        "idle": text(
            "None of its coroutines can go on: what they wait for does not come, or runs in a thread or a "
            "program that is stuck itself."
        ),
        "ray": text(
            "It waits for a result from Ray: an actor that died, or work for which there is no room in the cluster."
        ),
        "gpu": text("It waits for the GPU to finish what it was given."),
    }
    if seen.kind == "network" and "accept" in source:
        return text("It waits for somebody to connect, and nobody does.")
    if _gets_from_a_process(seen):
        return text(
            "It waits for an item that another process should put into the queue: that one has ended, has left it out, or waits itself."
        )
    if seen.wait is None and seen.thread is not None and isinstance(seen.thread.state, NotAvailable):
        return text("Where it is does not say whether it computes or waits.")
    return causes.get(
        seen.kind,
        text("It waits inside C code; the stack does not say for what."),
    )


def _gets_from_a_process(seen: Doing) -> bool:
    return seen.kind == "process" and seen.wait is not None and seen.wait.op == "get"


def _cause_below(case: Case, own: Below) -> str:
    """Why the process at which the wait ends does not get on; empty where that is not seen."""
    last = own.last
    if own.idle:
        return text(
            "A worker that was killed takes its piece of work with it: a multiprocessing.Pool starts another worker, and gives "
            "that piece to nobody."
        )
    if last is not None and last.stopped:
        return text("A process that it waits for was stopped by a signal or a debugger.")
    return _cause(last.seen, case.source_of(last.seen)) if last is not None and last.seen.users is not None else ""


def _step_below(own: Below) -> str:
    last = own.last
    if own.idle:
        return text(
            "See why a worker was killed (`dmesg -T | grep -i oom`); a concurrent.futures.ProcessPoolExecutor raises "
            "BrokenProcessPool instead of waiting."
        )
    if last is None:
        return ""
    if last.stopped:
        return text("Let it go on: kill -CONT {pid}", pid=last.pid)
    return _step(last.seen, last.on, last.pid) if last.seen.users is not None else ""


def _bound(seen: Doing) -> str:
    return text(
        "Put a time-out on the wait at {at}, or do this work outside of the step: while it lasts all "
        "ranks stand still.",
        at=short_place(seen.frame),
    )


def _step(seen: Doing, on: str | None, pid: int) -> str:
    """What to do about a process, `pid`, that waits as in `seen`; `on`: what its system call is about."""
    at, who = short_place(seen.frame), pid or "PID"
    if _gets_from_a_process(seen):
        return text(
            "See which process should put the item there, and in the log whether it ended; use get(timeout=...) at {at}.",
            at=at,
        )
    steps: Mapping[Kind, str] = {
        "file": text("Check {on} and its mount (`ls -l`, `df`, `mount`).", on=on or text("the file")),
        "pipe": text("See who holds the other end of {on}: lsof -p {pid}", on=on or text("the pipe"), pid=who),
        "network": text(
            "Check the server behind {on}; put a time-out on the request at {at}.",
            on=on or text("the connection"),
            at=at,
        ),
        "sleep": text("See at {at} what it waits for, and bring that about; give such a loop an end.", at=at),
        "terminal": text(
            "Answer at its terminal; for the next run take the question out, or answer it on one rank before the start."
        ),
        "child": text(
            "See {on}: pstree -p {pid}; ending it lets the rank go on.", on=on or text("the program"), pid=who
        ),
        "idle": text(
            "Put asyncio.timeout() round what the coroutines below {at} wait for; from Python 3.14 on "
            "`python -m asyncio pstree {pid}` shows them.",
            at=at,
            pid=who,
        ),
        "queue": text(
            "See in the log whether the thread that fills the queue ended with an exception; use "
            "get(timeout=...) at {at}.",
            at=at,
        ),
    }
    return steps.get(seen.kind) or text("See the native stack: py-spy dump --native --pid {pid}", pid=who)


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
    names = ", ".join(t.name for t, _ in mine) or text("a thread of a library")
    finding = Finding(
        "python_wait",
        "critical",
        text(
            "Rank {rank} has finished, but its process cannot end: thread {names} is still there",
            rank=view.rank,
            names=names,
        ),
        rank_subjects([view.rank]),
        place(frame),
        [
            text("its main thread is past the end of the program and joins the threads that are no daemons"),
            *(_thread_at(case, t, d) for t, d in mine[:4]),
            *case.others_wait([view.rank]),
        ],
        text("Python ends a process only when all threads that are no daemons have ended."),
        [
            text(
                "Tell thread {names} to stop before the program ends (put a sentinel into its queue), or start "
                "it with daemon=True.",
                names=names,
            ),
            text("This run is over: kill {pid} loses nothing that the training still does.", pid=view.pid),
        ],
    )
    return Hit(finding, [view.rank])


def _thread_at(case: Case, thread: Thread, seen: Doing) -> str:
    return text("thread {name} {phrase} at {at}", name=thread.name, phrase=phrase(seen), at=case.at(seen))
