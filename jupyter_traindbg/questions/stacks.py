"""Show what every thread of every rank is doing: file and line, running or waiting for what; identical ranks together."""

from __future__ import annotations

import dataclasses
import time

from ..attach.base import Link, ask_all
from ..gather import stacks
from ..model import ProcessStacks, Stacks
from .base import DEADLINE_S, Ranks, Whom

EXAMPLES = (
    ("", "of the job attached to, else of the only one there is"),
    ("4711", "of this process and its children"),
)
WHOM = Whom.EVERYBODY
OPTIONS = {"children": "leave out DataLoader workers and other child processes"}


def ask(job: Ranks, *, children: bool = True, timeout: float = DEADLINE_S) -> Stacks:
    """What every thread of every rank is doing, with DataLoader workers and other child processes.

    From the agent where one runs (5 ms), else from outside through py-spy (about 20 ms a process), which also answers while the
    GIL is held or the process is stopped. Never brings an agent in.
    """
    began = time.monotonic()
    asked = ask_all(job.open_links(), lambda link: _of_rank(link, children, began + timeout), timeout).need_one()
    processes = tuple(process for _, seen in asked.answers for process in seen)
    return Stacks(processes, asked.silent, time.monotonic() - began)


def _of_rank(link: Link, children: bool, ends: float) -> list[ProcessStacks]:
    if (gone := link.ended()) is not None:
        raise gone
    seen = stacks.of(link, link.answering(), ends, children=children)
    return [dataclasses.replace(process, worker=link.worker) for process in seen]
