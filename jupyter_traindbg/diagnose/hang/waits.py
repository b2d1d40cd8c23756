"""A rank whose training thread waits for something that is not another rank: a file, a server, a person, a program, a thread, or time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from ...language import counted, text
from ...model import Finding, Frame, Thread, rank_subjects
from ...words.ranks import ranks_words
from . import away, why
from .below import below
from .case import Case, Hit, View
from .coroutines import awaited
from .doing import Doing, Kind, doing, phrase
from .file_locks import polled_lock
from .onward import Onward
from .polls import looks, looks_at
from .ring import beside
from .stop_words import subject
from .words import alike, notice_in_the_driver, place, short_place

EXPLAINS = {
    "io_wait": ("unequal_steps", "collective_not_issued", "straggler"),
    "python_wait": ("unequal_steps", "collective_not_issued"),
}
_IO: frozenset[Kind] = frozenset({"file", "network", "pipe", "device"})
_ELSEWHERE: frozenset[Kind] = frozenset({"loader", "lock", "computing", "gil", "gpu"})
"""Kinds with a rule of their own."""
_POOL = "concurrent/futures/thread.py"
NOWHERE = Onward("", ())


def rule(case: Case) -> list[Hit]:
    """One finding for all ranks that wait for the same at the same line."""
    at_ray = case.at_ray
    blocked = [v for v in case.blocked if v.holder is None and v.now.kind not in _ELSEWHERE and v not in at_ray]
    rings = {rank for rank, chain in case.chains.items() if chain.ring}
    blocked = [v for v in blocked if v.rank not in rings and not v.waits_by_a_thread]
    told = {v.rank for v in blocked if v.rank in {one.by for one in case.left_out.values()} and looks(v)}
    free = [v for v in blocked if v.rank not in told and polled_lock(case, v) is None]
    leaving = [v for v in free if _shutting_down(v)]
    hits = [_cannot_end(case, v) for v in leaving]
    over = [v for v in free if v.has_no_call]
    hits += [_without_a_call(case, over)] if over else []
    others = [(v, _onward(case, v)) for v in free if v not in leaving and v not in over]
    return hits + [_hit(case, same) for same in alike(others, _alike)]


def _onward(case: Case, view: View) -> Onward:
    """Where its wait leads; what its coroutines await is told in any case."""
    led, loop = beside(case, view) or below(case, view), awaited(case, view)
    if led is None or loop is None:
        return led or loop or NOWHERE
    return replace(led, evidence=[*loop.evidence, *led.evidence])


def _alike(one: tuple[View, Onward]) -> tuple[object, ...]:
    view, onward = one
    return view.now.kind, view.now.wait, view.now.frame, onward.frame, onward.cause


def _hit(case: Case, same: Sequence[tuple[View, Onward]]) -> Hit:
    (view, onward), views = same[0], [v for v, _ in same]
    ranks, seen = [v.rank for v in views], view.now
    on = view.training.on if view.training is not None else None
    finding = Finding(
        "io_wait" if seen.kind in _IO else "python_wait",
        "critical",
        _title(case, views, onward),
        (
            *rank_subjects(ranks),
            *dict.fromkeys(subject(o.process, o.who) for _, o in same if o.process is not None),
        ),
        place(onward.frame or seen.frame),
        [
            *(_words(case, v) for v in views[:4]),
            *(line for v in views[:4] for line in looks_at(v)),
            *(line for _, o in same[:4] for line in o.evidence),
            *([] if onward.evidence else _threads(case, view)),
            *case.others_wait(ranks),
        ],
        onward.cause or why.cause(seen, case.source_of(seen)),
        [
            onward.step or why.step(seen, on, view.pid),
            *filter(None, [onward.rescue]),
            *away.step(case, view),
            _bound(seen, case.source_of(seen)),
        ],
        confidence=_confidence(case, seen, onward),
    )
    return Hit(finding, ranks)


def _title(case: Case, same: Sequence[View], onward: Onward) -> str:
    ranks, seen = ranks_words(v.rank for v in same), same[0].now
    verb, at = phrase(seen, len(same)), short_place(seen.frame)
    if onward.words:
        return text(
            "{ranks} {verb} at {at}, and {onward}",
            ranks=ranks.capitalize(),
            verb=verb,
            at=at,
            onward=onward.words,
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


def _confidence(case: Case, seen: Doing, onward: Onward) -> Literal["high", "medium", "low"]:
    if seen.kind in ("native", "unknown") or seen.users is None:
        return "low"
    if onward.unsure:
        return "medium"
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
    pools = [t for t, d in others if d.users is None and _works_for_a_pool(t)]
    told += [
        text("its thread {name} is in a call that a pool was given, outside of the program's own code", name=t.name)
        for t in pools
    ]
    none = text("no other thread of this rank runs code of the user: who should have delivered has ended")
    return told[:4] or ([] if view.now.kind == "idle" else [none])


def _works_for_a_pool(thread: Thread) -> bool:
    return any(f.file.endswith(_POOL) and f.function.rpartition(".")[2] == "run" for f in thread.frames)


def _bound(seen: Doing, source: str) -> str:
    if why.has_time_out(source):
        return text(
            "The time-out at {at} has not run out yet: give it a shorter one, or do this work outside of the step, as all ranks stand "
            "still meanwhile.",
            at=short_place(seen.frame),
        )
    return text(
        "Put a time-out on the wait at {at}, or do this work outside of the step: while it lasts all "
        "ranks stand still.",
        at=short_place(seen.frame),
    )


def _without_a_call(case: Case, same: Sequence[View]) -> Hit:
    """Actors of Ray's of whose call it is not known here how it ended."""
    ranks = [v.rank for v in same]
    finding = Finding(
        "python_wait",
        "critical",
        counted(
            "{ranks} runs no call any more, while the others wait for it in theirs",
            "{ranks} run no call any more, while the others wait for them in theirs",
            len(ranks),
            ranks=ranks_words(ranks).capitalize(),
            ranks2=ranks_words(ranks),
        ),
        rank_subjects(ranks),
        None,
        case.others_wait(ranks),
        text(
            "A call that runs on all ranks has returned or raised on some: Ray tells only whoever asks for its result."
        ),
        [
            text(
                "See what became of it: `ray.get` on the ref of that very call gives what it returned, or raises what it raised."
            ),
            notice_in_the_driver(),
        ],
        confidence="high" if case.waiting else "medium",
    )
    return Hit(finding, ranks)


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
