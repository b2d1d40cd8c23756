"""A thread of a rank, or of a process below it, native ones too, watched for a second."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..language import later, text
from ..model import NotAvailable, ProcessThreads, Threads, ThreadUse
from .base import Column, Question, Row, fields

COST = later("1.1 s, of which the training gives 0.5 ms of the GIL")
ASKS = (Question("threads"),)
COLUMNS = (
    Column("rank", int, later("the rank that the process belongs to")),
    Column("pid", int, later("the process")),
    Column("role", str, later("`rank`, `DataLoader worker` or `child`")),
    Column("tid", int, later("the kernel's number for the thread")),
    Column("name", str, later("Python's name for it, else the kernel's")),
    Column("training", bool, later("whether it is the thread that trains")),
    Column("python", bool, later("whether it runs Python")),
    Column("state", str, later("`running`, `waiting`, `stopped by a signal` ...")),
    Column("cpu_share", float, later("of one CPU, 0 to 1")),
    Column("starved_share", float, later("of the time, in which it was ready and was given no CPU")),
    Column("waiting_for", str, later("what it waits for; NULL where it does not, or where that is not known")),
    Column("function", str, later("where it is in the user's code, else in a library's")),
    Column("file", str, later("the file of that")),
    Column("line", int, later("the line of that")),
    Column("lock", str, later("the lock that it waits for, as the source has it")),
    Column("lock_holder", str, later("the thread that holds that lock")),
    Column("lock_holder_tid", int, later("the kernel's number for that thread")),
    Column(
        "holds", list[str], later("locks that it holds while another thread waits for them, or while it waits itself")
    ),
)


def rows(threads: Threads) -> Iterator[Row]:
    for process in threads.processes:
        of_process = fields(process, "rank", "pid", "role")
        for thread in process.threads:
            yield of_process | _of_thread(thread) | _locks(process, thread)


def _of_thread(thread: ThreadUse) -> dict[str, Any]:
    where = thread.where
    return {
        **fields(thread, "tid", "name", "training", "python", "state", "cpu_share", "starved_share"),
        "waiting_for": None if thread.waiting_for is None else str(thread.waiting_for),
        **({} if where is None else fields(where, "function", "file", "line")),
    }


def _locks(process: ProcessThreads, thread: ThreadUse) -> dict[str, Any]:
    if isinstance(process.locks, NotAvailable):
        return dict.fromkeys(("lock", "lock_holder", "lock_holder_tid", "holds"), process.locks)
    lock = thread.lock
    if lock is None:
        return {"holds": thread.holds}
    return {
        "lock": lock.name,
        "lock_holder": lock.holder or NotAvailable(text("nobody in the process is seen to hold it")),
        "lock_holder_tid": lock.holder_tid,
        "holds": thread.holds,
    }
