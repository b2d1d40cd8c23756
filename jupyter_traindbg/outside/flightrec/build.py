"""Rows of a flight recorder as the dataclasses of the model: the same for a live rank and for a dump file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...model import Collective, Group, NotAvailable, RankCollectives

__all__ = ["NOTHING_LATER", "rank_collectives"]

NOTHING_LATER = "nothing in the dumps is later than this call"


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
