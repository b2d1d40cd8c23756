"""The stacks of a rank, from its agent where one runs, else from outside."""

from __future__ import annotations

import time

from . import evidence
from .attach.base import Link
from .errors import DeadlineExceeded, ProbeFailed
from .model import ProcessStacks
from .outside import stacks as outside

__all__ = ["of_rank"]

QUICK_S = 1.0
"""How long an agent may take for stacks before we look from outside."""


def of_rank(link: Link, children: bool, deadline_s: float) -> list[ProcessStacks]:
    """All threads of the rank behind `link`, and with `children` those of the processes below it. Never brings an agent in."""
    ends = time.monotonic() + deadline_s
    if (gone := link.ended()) is not None:
        raise gone
    client = link.answering()
    if client is not None:
        try:
            inside = evidence.stacks(link.rank, link.pid, client.call("stacks", {}, min(QUICK_S, deadline_s)))
        except (DeadlineExceeded, ProbeFailed):
            pass  # the GIL is held, or our own probe failed: the view from outside, below, is an answer all the same
        else:
            left_s = ends - time.monotonic()
            below = outside.below(link.pid, link.rank, deadline_s=left_s, apart=link.others) if children else []
            return [inside, *below]
    left_s = max(0.5, ends - time.monotonic())
    return outside.dump(link.pid, link.rank, deadline_s=left_s, children=children, apart=link.others)
