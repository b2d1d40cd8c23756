"""Rows of a flight recorder as the dataclasses of the model: the same for a live rank and for a dump file."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

from ...frames.whose import frames_of
from ...model import CallSite, CallSites, Collective, Group, NotAvailable, RankCollectives

__all__ = ["NOTHING_LATER", "places", "rank_collectives"]

NOTHING_LATER = "nothing in the dumps is later than this call"
_BETWEEN = re.compile(r"/torch/nn/modules/module\.py$|/_traindbg_agent/|/jupyter_traindbg/agent/")
"""How a module is called, which hooks change, and our own wrappers: they say nothing of where in the program a call is."""


def rank_collectives(
    rank: int, pid: int, summary: Mapping[str, Any], *, source: str, where: str | None = None
) -> RankCollectives:
    """`summary` is what `jupyter_traindbg.agent.flight.summary` says, with ``now_s`` and ``note``."""
    calls = tuple(_call(dict(zip(summary["fields"], row, strict=True))) for row in summary["calls"])
    return RankCollectives(
        rank,
        pid,
        source,
        tuple(Group(**{**g, "ranks": tuple(g["ranks"])}) for g in summary["groups"]),
        calls,
        capacity_reached=bool(summary["overwritten"]),
        waiting_s=_waiting_s(calls, summary.get("now_s")),
        pending_only=bool(summary.get("pending_only")),
        note=summary.get("note", ""),
        where=where,
    )


def places(told: Mapping[str, Any]) -> CallSites:
    """`told` is what `jupyter_traindbg.agent.flight.call_sites` says. Ranks share the objects of equal places."""
    sites = tuple(_site(op, tuple(tuple(frame) for frame in stack if frame)) for op, stack in told["sites"])
    return CallSites(sites, {group: dict(calls) for group, calls in told["at"].items()})


@functools.lru_cache(maxsize=4096)
def _site(op: str, stack: tuple[tuple[Any, ...], ...]) -> CallSite:
    return CallSite(op, tuple(frame for frame in frames_of(stack) if not _BETWEEN.search(frame.file)))


def _call(raw: Mapping[str, Any]) -> Collective:
    issued = raw["issued_s"]
    return Collective(
        **{
            **raw,
            "input_sizes": _frozen(raw["input_sizes"]),
            "output_sizes": _frozen(raw["output_sizes"]),
            "dtypes": tuple(raw["dtypes"]),
            "issued_s": NotAvailable("the recorder has no time of it") if issued is None else issued,
        }
    )


def _frozen(sizes: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(shape) for shape in sizes)


def _waiting_s(calls: tuple[Collective, ...], now_s: float | None) -> float | NotAvailable:
    pending = [c for c in calls if c.state != "completed"]
    if not pending:
        return NotAvailable("no call is under way")
    began = [c.issued_s for c in pending if not isinstance(c.issued_s, NotAvailable)]
    if not began or now_s is None:
        return NotAvailable("the recorder has no time of it")
    waited = now_s - min(began)
    return waited if waited > 0 else NotAvailable(NOTHING_LATER)
