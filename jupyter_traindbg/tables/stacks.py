"""A frame of a thread of a rank, or of a process below it; `depth` 0 is the innermost."""

from __future__ import annotations

from collections.abc import Iterator

from ..language import later
from ..model import Stacks
from .base import Column, Question, Row, fields

COST = later("5 ms where agents run, about 20 ms a process from outside; brings no agent in")
ASKS = (Question("stacks"),)
COLUMNS = (
    Column("rank", int, later("the rank that the process belongs to")),
    Column("pid", int, later("the process")),
    Column("role", str, later("`rank`, `DataLoader worker` or `child`")),
    Column("thread", str, later("the thread's name")),
    Column("tid", int, later("the kernel's number for it")),
    Column("training", bool, later("whether it is the thread that trains")),
    Column("state", str, later("`running`, `waiting`, `stopped by a signal` ...")),
    Column("waiting_for", str, later("what it waits for; NULL where it does not, or where that is not known")),
    Column("peer", int, later("the rank that it sends to or receives from just now")),
    Column("holds_gil", bool, later("whether it holds the GIL")),
    Column("depth", int, later("0 is the innermost frame")),
    Column("function", str, later("the function")),
    Column("file", str, later("the file")),
    Column("line", int, later("the line that is being executed")),
    Column("cell", int, later("the number of the notebook's cell that the file stands for")),
    Column("library", bool, later("whether it is not the user's code")),
    Column("source", str, later("who told it: `agent` or `py-spy`")),
)


def rows(stacks: Stacks) -> Iterator[Row]:
    for process in stacks.processes:
        of_process = fields(process, "rank", "pid", "role", "source")
        for thread in process.threads:
            of_thread = fields(thread, "tid", "training", "state", "peer", "holds_gil")
            waits = None if thread.waiting_for is None else str(thread.waiting_for)
            for depth, frame in enumerate(thread.frames):
                yield (
                    of_process
                    | of_thread
                    | fields(frame, "function", "file", "line", "cell", "library")
                    | {"thread": thread.name, "waiting_for": waits, "depth": depth}
                )
