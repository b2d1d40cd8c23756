"""What its stacks add to a row (tier 1): the user's line, what it waits for there, and whether it moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...frames.whose import full_place, own_frames, shortened
from ...model import NO_WAIT, Frame, NotAvailable, RayLook, RayThread, RayWorker, Thread, Wait
from ...words.durations import age
from .facts import Facts
from .naming import together
from .words import called, known

__all__ = ["NEEDS_AGENT", "STANDS", "in_event_loop", "seen", "with_look"]

NEEDS_AGENT = "needs the agent (tier 2)"
MOST_NAMED = 4
NOT_COUNTED = NotAvailable("the kernel does not tell how often it runs")
STANDS = NotAvailable("it stands still, and the kernel does not tell since when")
STANDS_S = 1.0
"""Below it, standing still is not worth a word."""
_METHODS = "/ray/_private/function_manager.py"
_WORKER = "/ray/_private/worker.py"
_BLOCKING = {"get": Wait("ray", "get"), "get_objects": Wait("ray", "get"), "wait": Wait("ray", "wait")}
_TRAINING = "TrainingThread"
_EVENT_LOOP = "AsyncIO Thread"


def seen(look: RayLook, *, driver: bool = False) -> tuple[RayThread, ...]:
    """The threads that have code of the user's on them, those that run Ray's methods first."""
    found = [_thread(look, thread, driver) for thread in look.stacks.threads]
    return tuple(sorted((one for one in found if one is not None), key=_interest))


def _interest(thread: RayThread) -> tuple[int, bool, float]:
    """Methods before the user's own threads; at a lock, where somebody else has to let it go on, before elsewhere; the longest first."""
    return (
        ("method", "coroutine", "thread").index(thread.kind),
        thread.waiting_for.kind not in ("lock", "native"),
        -known(thread.still_s),
    )


def _thread(look: RayLook, thread: Thread, driver: bool) -> RayThread | None:
    own = _own(thread.frames)
    if not own:
        return None
    main = thread.tid == look.stacks.pid
    method = (
        main
        or thread.name.startswith((_TRAINING, _EVENT_LOOP))
        or any(_METHODS in frame.file for frame in thread.frames)
    )
    innermost = thread.frames[0]
    still_s = look.still_s.get(thread.tid) if isinstance(thread.tid, int) else None
    return RayThread(
        name=thread.name,
        kind="method" if method else "thread",
        stack=tuple(full_place(frame) for frame in own),
        state="" if isinstance(thread.state, NotAvailable) else thread.state,
        waiting_for=_blocked_in(thread.frames) or thread.waiting_for or NO_WAIT,
        inside="" if innermost in own else full_place(innermost),
        still_s=NOT_COUNTED if still_s is None else STANDS if still_s < 0 else still_s,
        method=own[-1].function.rpartition(".")[2] if method and not driver else "",
        tid=thread.tid if isinstance(thread.tid, int) else None,
    )


def _own(frames: Sequence[Frame]) -> list[Frame]:
    """The user's frames; where all is installed code, as of a framework that runs on Ray, whatever is neither Ray's nor Python's own."""
    here = own_frames(frames)
    return [f for f in here if not f.library] or [f for f in here if "-packages/" in f.file and not _of_ray(f)]


def _of_ray(frame: Frame) -> bool:
    return "-packages/ray/" in frame.file


def _blocked_in(frames: Sequence[Frame]) -> Wait:
    """In ``ray.get`` or ``ray.wait``, where the thread is inside one."""
    for frame in frames:
        if not frame.library:
            break
        if frame.file.endswith(_WORKER) and frame.function.rpartition(".")[2] in _BLOCKING:
            return _BLOCKING[frame.function.rpartition(".")[2]]
    return NO_WAIT


# --- into the row --------------------------------------------------------------------------------------------------


def with_look(facts: Facts, row: RayWorker, look: RayLook) -> RayWorker:
    """The row with what was seen of its process."""
    threads = seen(look, driver=row.kind == "driver")
    measured = replace(
        row, tier=1, threads=threads, cpu_percent=100 * look.cpu_share, rss_bytes=look.rss_bytes or row.rss_bytes
    )
    methods = [thread for thread in threads if thread.kind == "method"]
    if not methods:
        return _without_place(measured, look)
    place = methods[0]
    blocked = place.waiting_for in _BLOCKING.values()
    found = replace(
        measured,
        state=row.state if row.state == "in __init__" else "blocked" if blocked else "running",
        where=place.where or NotAvailable("no code of the user's is on its stack"),
        stack=place.stack,
        method=row.method or place.method,
        waits_for=_whom(facts, row) if blocked else row.waits_for,
        waiting_for=place.waiting_for,
        still_s=place.still_s,
        detail=(*row.detail, *(_line(thread) for thread in threads if thread is not place)),
    )
    return replace(found, words=_words(found, place))


def in_event_loop(row: RayWorker) -> bool:
    """Whether the place of the row is one that an event loop was just passing: the coroutines that wait tell more."""
    return bool(row.threads) and row.threads[0].name.startswith(_EVENT_LOOP) and row.still_s == 0.0


def _without_place(row: RayWorker, look: RayLook) -> RayWorker:
    loops = any(thread.name.startswith(_EVENT_LOOP) for thread in look.stacks.threads)
    running = row.state in ("running", "blocked", "not known")
    if loops and running:
        where = NotAvailable(f"its coroutines are not on any stack; {NEEDS_AGENT}")
        return replace(
            row,
            where=where,
            words=f"{row.words}, its coroutines await something" if row.state == "running" else row.words,
        )
    if row.state == "not known":
        return replace(row, state="idle", words="idle, as its stack shows", where=NotAvailable("it runs nothing"))
    return replace(row, where=NotAvailable("no code of the user's is on its stack" if running else "it runs nothing"))


def _whom(facts: Facts, row: RayWorker) -> tuple[str, ...]:
    tasks = [task.task_id for task in facts.running.get(row.actor_id or "", ())] or (
        [row.task_id] if row.task_id else []
    )
    return tuple(name for name in facts.called_by(tasks) if name != row.who)


def _words(row: RayWorker, place: RayThread) -> str:
    """The state in a sentence: ``in __init__ for 26 s at collector.py:20 Engine.load, waiting for a lock, not moving for 25 s``."""
    what = {"in __init__": "in __init__", "running": _running(row), "blocked": _running(row)}.get(row.state, row.words)
    for_s = "" if isinstance(row.since_s, NotAvailable) or row.kind == "driver" else f" for {age(row.since_s)}"
    at = f" at {shortened(place.where)}" if place.where else ""
    return f"{what}{for_s}{at}{_waiting(place, row.waits_for)}{_still(place)}"


def _running(row: RayWorker) -> str:
    if row.kind == "driver":
        return "the driver is"
    if row.kind == "train":
        return "in the training function"
    if row.kind == "task":
        return "running"
    return f"running {called(row.method)}" if row.method else "running"


def _waiting(place: RayThread, waits_for: Sequence[str]) -> str:
    if place.waiting_for in _BLOCKING.values():
        on = f" on {together(waits_for, MOST_NAMED)}" if waits_for else ""
        return f", blocked in {place.waiting_for}{on}"
    if not place.waiting_for:
        return ""
    if place.waiting_for.kind == "sleep":
        return ", sleeping"
    return f", {place.waiting_for}" if place.waiting_for.kind == "idle" else f", waiting for {place.waiting_for}"


def _still(place: RayThread) -> str:
    if isinstance(place.still_s, NotAvailable) or place.still_s < STANDS_S or place.waiting_for in _BLOCKING.values():
        return ""
    return f", not moving for {age(place.still_s)}"


def _line(thread: RayThread) -> str:
    """Another thread of the process, in a line."""
    name = f"{thread.method}(), too," if thread.kind == "method" and thread.method else f"thread {thread.name!r}"
    at = f" at {shortened(thread.where)}" if thread.where else ""
    return f"{name} is{at}{_waiting(thread, ())}{_still(thread)}"
