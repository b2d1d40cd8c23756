"""From what the agent's probes ``collectives`` and ``call_sites`` answer to the types of the model."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

from .frames.whose import frames_of
from .model import CallSite, CallSites, Maybe, NotAvailable, RankCollectives
from .outside.flightrec.build import rank_collectives

__all__ = ["call_sites", "collectives"]

_BETWEEN = re.compile(r"/torch/nn/modules/module\.py$|/_traindbg_agent/|/jupyter_traindbg/agent/")
"""How a module is called, which hooks change, and our own wrappers: they say nothing of where in the program a call is."""


def collectives(rank: int, pid: int, answer: Mapping[str, Any], *, where: str | None = None) -> RankCollectives:
    """The groups and calls of one rank; `where` is the user's frame that its training thread is in, where that is known."""
    return rank_collectives(rank, pid, answer, source="agent", where=where)


def call_sites(answer: Mapping[str, Any]) -> Maybe[CallSites]:
    """From where one rank issued its collectives. Ranks share the objects of equal places."""
    if not answer["at"]:
        return NotAvailable(answer["note"])
    sites = tuple(_site(op, tuple(map(tuple, stack))) for op, stack in answer["sites"])
    return CallSites(sites, {group: dict(calls) for group, calls in answer["at"].items()})


@functools.lru_cache(maxsize=4096)
def _site(op: str, stack: tuple[tuple[Any, ...], ...]) -> CallSite:
    return CallSite(op, tuple(frame for frame in frames_of(stack) if not _BETWEEN.search(frame.file)))
