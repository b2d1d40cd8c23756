"""`Attached`: the ranks, those that are alike in one row, and what to type next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...model import Attached, Rank
from ..blocks import Block, Column, Inline, Line, Span, Table
from ..common import DASH, measured
from ..grouping import compact_ranks, group_by, rank_list
from ..units import duration, plural

NEXT = ("%watch", "%diagnose", "%plot", "%stacks", "%grads", "%lr", "%memory", "%gpu")


def view(result: Attached) -> Iterator[Block]:
    inside = sum(rank.agent for rank in result.ranks)
    words: list[str | Span] = ["attached to ", Span(result.target, "code"), f" · {plural(len(result.ranks), 'rank')}"]
    if inside < len(result.ranks):
        words.append(f", the agent is in {inside} of them")
    yield Line([*words, f" · {duration(result.attach_s)}"], title=True)
    columns = [
        Column("ranks"),
        Column("pid", spare=True),
        Column("agent", wrap=True),
        Column("Python"),
        Column("torch"),
    ]
    columns += [Column("frameworks", wrap=True), Column("note", wrap=True)]
    used = [True, True, True, True, True, any(r.frameworks for r in result.ranks), any(r.note for r in result.ranks)]
    rows = [_row(same) for same in group_by(result.ranks, _alike)]
    if rows:
        kept = [i for i, use in enumerate(used) if use]
        yield Table(
            "Ranks", [columns[i] for i in kept], [[row[i] for i in kept] for row in rows], 30, "groups of ranks"
        )
    yield Line(["Next: ", *(part for name in NEXT for part in (Span(name, "code"), ", "))][:-1])


def _alike(rank: Rank) -> tuple[object, ...]:
    return rank.way, str(rank.python), str(rank.torch), tuple(rank.frameworks), rank.agent, rank.note, rank.world_size


def _row(same: Sequence[Rank]) -> list[Inline]:
    rank = same[0]
    which = f"{compact_ranks([r.rank for r in same])} of {rank.world_size}"
    pids = [r.pid for r in same]
    return [
        Span(which, "strong"),
        rank_list(pids) if len(pids) <= 4 else f"{len(pids)} pids",
        rank.way if rank.agent else [Span("none", "warn"), f" ({rank.way})"],
        measured(rank.python, str),
        measured(rank.torch, str),
        ", ".join(rank.frameworks) or DASH,
        rank.note or DASH,
    ]
