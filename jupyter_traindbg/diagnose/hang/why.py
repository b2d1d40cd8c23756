"""Why a wait lasts, and what to do about it, by its kind alone: of a rank's thread, and of a process below it."""

from __future__ import annotations

from collections.abc import Mapping

from ...language import text
from ...model import NotAvailable
from .doing import Doing, Kind
from .words import short_place

__all__ = ["cause", "has_time_out", "step"]


def cause(seen: Doing, source: str) -> str:
    """`source`: the line at which it waits."""
    causes: Mapping[Kind, str] = {
        "file": text(
            "The file does not come: a network file system that does not answer, a pipe that nobody fills, a "
            "lock on it."
        ),
        "pipe": text("Nobody writes to the pipe that it reads, or nobody reads what it writes."),
        "network": text("The other side does not answer.")
        if has_time_out(source)
        else text("The other side does not answer, and the request has no time-out."),
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
        "coroutine": text(
            "What it awaits does not come: nobody sets that event, puts that item or answers, or whoever should waits for it itself."
        ),
        "ray": text(
            "It waits for a result from Ray: an actor that died, or work for which there is no room in the cluster."
        ),
        "gpu": text("It waits for the GPU to finish what it was given."),
        "store": text(
            "No rank has set that key: the one that should has not come to it, has ended, or calls it by another name."
        ),
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


def has_time_out(source: str) -> bool:
    """Whether a line says how long it waits at most."""
    return "timeout" in source.lower() or "timedelta(" in source


def step(seen: Doing, on: str | None, pid: int) -> str:
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
        "coroutine": text("See who should bring about what it awaits: that one has ended, or waits itself.")
        if seen.frame is None
        else text("See who should bring about what it awaits at {at}, and put asyncio.timeout() round that.", at=at),
        "store": text("See which rank should set the key, and whether it computes the same name for it."),
        "queue": text(
            "See in the log whether the thread that fills the queue ended with an exception; use "
            "get(timeout=...) at {at}.",
            at=at,
        ),
    }
    return steps.get(seen.kind) or text("See the native stack: py-spy dump --native --pid {pid}", pid=who)


def _gets_from_a_process(seen: Doing) -> bool:
    return seen.kind == "process" and seen.wait is not None and seen.wait.op == "get"
