"""What an agent inside adds to a row (tier 2): whose results it waits for, who holds the lock, its coroutines, its counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...errors import TraindbgError
from ...frames.whose import shortened
from ...model import NO_WAIT, NotAvailable, RayLockWait, RayThread, RayWorker, Wait
from ...words.durations import age
from .facts import Facts
from .naming import together
from .stacked import in_event_loop

__all__ = ["questions", "with_answers"]

MOST_NAMED = 4
MOST_LINES = 8
Answers = Mapping[str, Any]


def questions(row: RayWorker, progress: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
    """What to ask the agent of a row's process."""
    asked: list[tuple[str, dict[str, Any]]] = [("ray_waits", {}), ("locks", {})]
    if row.kind == "actor":
        asked.append(("coroutines", {}))
    return [*asked, *counters(progress)]


def counters(progress: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
    return [("counters", {"names": list(progress)})] if progress else []


def with_answers(facts: Facts, row: RayWorker, answers: Answers) -> RayWorker:
    """The row with what its agent answered; a question that failed leaves it as it was."""
    good = {name: answer for name, answer in answers.items() if not isinstance(answer, TraindbgError)}
    row = replace(row, tier=2) if good else row
    if "counters" in good:
        row = replace(row, progress=_progress(good["counters"]))
    if "ray_waits" in good:
        row = _with_waits(facts, row, good["ray_waits"]["waits"])
    if "locks" in good:
        row = _with_locks(row, good["locks"])
    if "coroutines" in good:
        row = _with_coroutines(facts, row, good["coroutines"]["tasks"])
    return row


# --- progress ------------------------------------------------------------------------------------------------------


def _progress(answer: Mapping[str, Any]) -> str | NotAvailable:
    """``games 17, moves 340``; why there is none where none has a value."""
    values = answer["values"]
    told = [f"{name.rpartition('.')[2]} {_number(one['value'])}" for name, one in values.items() if "value" in one]
    if told:
        return ", ".join(told)
    reasons = [f"{name}: {one['missing']}" for name, one in values.items()]
    return NotAvailable("; ".join(reasons) or "nothing was asked for")


def _number(value: Any) -> str:
    return (
        f"{value:,}"
        if isinstance(value, int) and not isinstance(value, bool)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )


# --- ray.get and ray.wait ------------------------------------------------------------------------------------------


def _with_waits(facts: Facts, row: RayWorker, waits: Sequence[Mapping[str, Any]]) -> RayWorker:
    wait = next((one for one in waits if row.where and one["where"] == row.where), waits[0] if waits else None)
    if wait is None or row.state not in ("blocked", "in __init__"):
        return row
    waits_for = whom(facts, wait["waits_for"])
    words = f"{_head(row.words)}, blocked in {wait['call']} on {_on(waits_for, wait)}"
    return replace(row, waits_for=tuple(name for name in waits_for if name != row.who), words=words)


def whom(facts: Facts, refs: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Who makes the results that are not there yet. A task that the cluster does not know as open has ended."""
    open_ids = facts.open_tasks
    found: dict[str, None] = {}
    for ref in refs:
        if not facts.tasks_known or ref["task_id"] in open_ids:
            name = facts.who.get(ref["task_id"]) or facts.who.get(ref["actor_id"] or "")
            if name is not None:
                found[name] = None
    return tuple(found)


def _on(waits_for: Sequence[str], wait: Mapping[str, Any]) -> str:
    refs = wait["refs"]
    limit = f", at most {age(wait['timeout_s'])}" if wait["timeout_s"] is not None else ""
    enough = (
        f", {wait['num_returns']} of {refs} will do"
        if wait["call"] == "ray.wait" and wait["num_returns"] != refs
        else ""
    )
    results = f"{refs} result{'s' * (refs != 1)}"
    return f"{together(waits_for, MOST_NAMED)} ({results}{enough}{limit})" if waits_for else f"{results}{enough}{limit}"


def _head(words: str) -> str:
    return words.partition(", blocked in ")[0]


# --- locks ---------------------------------------------------------------------------------------------------------


def _with_locks(row: RayWorker, answer: Mapping[str, Any]) -> RayWorker:
    rings = [set(ring) for ring in answer["cycles"]]
    called: dict[int | str | None, str] = {}
    for thread in row.threads:
        if thread.kind == "method" and thread.method:
            called.update({thread.tid: f"{thread.method}()", thread.where or None: f"{thread.method}()"})
    called.pop(None, None)
    waits = [_wait(thread, rings, called) for thread in answer["threads"] if _counts(row, thread)]
    if not waits:
        return row
    waits.sort(key=lambda wait: (not wait.cycle, wait.where != row.where))
    lines = tuple(_lock_line(wait) for wait in waits[:MOST_LINES])
    others = tuple(line for line in row.detail if not _told(line, waits))
    ring = next((wait for wait in waits if wait.cycle), None)
    words = row.words if ring is None else f"{row.words}: a deadlock with thread {ring.holder!r}"
    return replace(row, locks=tuple(waits), detail=(*lines, *others), words=words)


_LOCKS = ("Lock", "RLock", "Semaphore")
_NAMELESS = ("unknown to threading", "Dummy-")


def _counts(row: RayWorker, thread: Mapping[str, Any]) -> bool:
    """A wait for a lock or for another thread; one for an event or a queue only where the row itself stands."""
    lock = thread["waits_for"]
    if not lock or not thread["where"]:
        return False
    return bool(lock["held_by"]) or lock["kind"] in _LOCKS or thread["where"] == row.where


def _wait(thread: Mapping[str, Any], rings: Sequence[set[int]], called: Mapping[int | str | None, str]) -> RayLockWait:
    """`called` has the methods that Ray's threads run, by the thread's id and place: those that it starts outside of Python have no name of
    their own, and Python does not know their ids.
    """

    def name_of(one: Mapping[str, Any]) -> str:
        nameless = one.get("thread", "").startswith(_NAMELESS)
        by_place = called.get(one.get("where"), str(one.get("thread", "")))
        return called.get(one.get("tid"), by_place) if nameless else str(one.get("thread", ""))

    lock = thread["waits_for"]
    holder = lock["held_by"][0] if lock.get("held_by") else {}
    name = lock["name"] or f"a {lock['kind']}"
    ring = any(thread["tid"] in one and holder.get("tid") in one for one in rings)
    return RayLockWait(name_of(thread), name, thread["where"] or "", name_of(holder), holder.get("where") or "", ring)


def _lock_line(wait: RayLockWait) -> str:
    at = f" at {shortened(wait.where)}" if wait.where else ""
    if not wait.holder:
        return f"{wait.thread} waits for {wait.lock}{at}"
    held = f", at {shortened(wait.holder_where)}" if wait.holder_where else ""
    return f"{wait.thread} waits for {wait.lock}{at}, which {wait.holder} holds{held}"


def _told(line: str, waits: Sequence[RayLockWait]) -> bool:
    """Whether the locks' lines say more of the thread than `line`, from outside, does."""
    return any(line.startswith(f"thread {wait.thread!r} ") for wait in waits)


# --- coroutines ----------------------------------------------------------------------------------------------------


def _with_coroutines(facts: Facts, row: RayWorker, tasks: Sequence[Mapping[str, Any]]) -> RayWorker:
    own = [task for task in tasks if not task["ours"]]
    if not own:
        return row
    found = [_coroutine(task) for task in own]
    threads = (*(thread for thread in row.threads if thread.kind != "coroutine"), *found)
    awaited = {name: None for task in own for name in whom(facts, task.get("refs") or ())}
    lines = _alike(found)
    row = replace(row, threads=threads, detail=(*row.detail, *lines[:MOST_LINES]))
    if (row.stack and not in_event_loop(row)) or row.state not in ("running", "blocked", "not known"):
        return row  # a thread of it is at work: the coroutines are more about it, not its place
    place = max(found, key=lambda one: one.still_s if isinstance(one.still_s, float) else 0.0)
    head = row.words.partition(", its coroutines")[0].partition(" at ")[0]
    words = f"{head}, {len(own)} coroutine{'s' * (len(own) != 1)}"
    return replace(
        row,
        where=place.where or NotAvailable("its coroutines are in code that is not the user's"),
        stack=place.stack,
        waiting_for=place.waiting_for,
        waits_for=tuple(name for name in awaited if name != row.who),
        words=words,
    )


NOT_WAITING = NotAvailable("it runs")


def _coroutine(task: Mapping[str, Any]) -> RayThread:
    chain = [f"{file}:{line} {function}" for file, line, function in task["chain"]]
    where = task["where"]
    stack = tuple(chain[chain.index(where) :]) if where in chain else (where,) if where else ()
    return RayThread(
        name=task["name"],
        kind="coroutine",
        stack=stack,
        state=task["state"],
        waiting_for=Wait("coroutine", on=task["waits_for"]) if task["waits_for"] else NO_WAIT,
        still_s=NOT_WAITING if task["seen_waiting_s"] is None else float(task["seen_waiting_s"]),
        method=(task["method"] or "").rpartition(".")[2],
    )


def _alike(found: Sequence[RayThread]) -> list[str]:
    """``3 x pull awaits Event.wait at scene.py:40 Asy._inner``, those at one place together."""
    counts: dict[tuple[str, Wait, str], int] = {}
    for one in found:
        key = one.method or one.name, one.waiting_for, one.where or ""
        counts[key] = counts.get(key, 0) + 1
    lines = []
    for (method, waiting_for, where), n in sorted(counts.items(), key=lambda item: -item[1]):
        times = f"{n} coroutines {method}" if n > 1 else f"coroutine {method}"
        awaits = f" await{'s' * (n == 1)} {waiting_for}" if waiting_for else " runs" if n == 1 else " run"
        lines.append(f"{times}{awaits}" + (f" at {shortened(where)}" if where else ""))
    return lines
