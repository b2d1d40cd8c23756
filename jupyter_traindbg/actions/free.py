"""Memory given back by each rank between two of its steps. Ranks need not agree: it changes no result."""

from __future__ import annotations

from typing import Any

from .. import evidence
from ..attach.base import Link, ask_all
from ..model import Freed, RankFreed

__all__ = ["free_memory"]

METHOD = "free"


def free_memory(links: list[Link], *, zero_grad: bool, timeout: float) -> Freed:
    """Collect garbage and empty the CUDA cache of every rank; with `zero_grad`, drop the gradients as ``optimizer.zero_grad()`` does.

    Done at the boundary after a step. Costs the training thread one garbage collection (0.1 to 1 s in a large program). Raises the first
    rank's reason where no rank did it.
    """
    params: dict[str, Any] = {"zero_grad": zero_grad, "wait_s": timeout * 0.8}

    def one(link: Link) -> RankFreed:
        return evidence.freed(link.rank, link.pid, link.call(METHOD, params, timeout))

    done = ask_all(links, one, timeout).need_one()
    return Freed(tuple(freed for _, freed in done.answers), zero_grad, done.silent)
