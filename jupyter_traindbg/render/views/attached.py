"""`Attached`: whether the agent is in every rank; the ranks, those that are alike in one row; what to type next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...language import text
from ...model import Attached, Rank
from ...words.durations import duration
from ...words.ranks import compact_ranks, rank_list
from ..blocks import Answer, Block, Column, Inline, Line, Span, Table
from ..common import DASH, measured
from ..grouping import group_by, named
from ..units import plural

NEXT = ("%watch", "%diagnose", "%plot", "%stacks", "%grads", "%lr", "%memory", "%gpu")


def view(result: Attached) -> Iterator[Block]:
    yield _answer(result)
    told = {(s.rank, s.pid): s.reason for s in result.silent}
    ranks = list(result.ranks)
    names = {r.rank: r.worker for r in ranks if r.worker}
    columns = [
        Column("workers" if names else "ranks", wrap=True),
        Column("pid", spare=True),
        Column("agent", wrap=True),
        Column("Python"),
        Column("torch"),
    ]
    columns += [Column("frameworks", wrap=True), Column("note", wrap=True)]
    used = [*[True] * 5, any(r.frameworks for r in ranks), any(_note(r, told) for r in ranks)]
    rows = [[*_row(same, names), _note(same[0], told) or DASH] for same in group_by(ranks, _alike)]
    if rows:
        kept = [i for i, use in enumerate(used) if use]
        yield Table(
            "Workers" if names else "Ranks",
            [columns[i] for i in kept],
            [[row[i] for i in kept] for row in rows],
            30,
            "groups of ranks",
        )
    yield Line(["Next: ", *(part for name in NEXT for part in (Span(name, "code"), ", "))][:-1])


def _answer(result: Attached) -> Answer:
    ranks = result.ranks
    closed = [r.rank for r in ranks if not r.agent and r.way == "outside only"]
    inside = [r.rank for r in ranks if r.agent]
    target = Span(result.target, "code")
    about = [duration(result.attach_s)]
    if not ranks:
        return Answer([text("no rank of ", "没有找到 "), target, text(" was found", " 的任何 rank")], about, "warn")
    n, world = len(ranks), max(r.world_size for r in ranks)
    if closed:
        who = compact_ranks(closed) if inside else text("any of its ranks", "任何一个 rank")
        but = text(f", but the agent could not get into {who}", f"，但 agent 未能进入 {who}")
        count = text(f"it is in {len(inside):,} of {n:,}", f"已进入 {len(inside):,} / {n:,} 个")
        return Answer([text("attached to ", "已附加到 "), target, but], [count, *about], "warn")
    if len(inside) < n:
        into = (
            text(f": the agent is in {compact_ranks(inside)}", f"：agent 在 {compact_ranks(inside)} 中")
            if inside
            else text(": no rank was entered", "：尚未进入任何 rank")
        )
    else:
        into = text(
            f": the agent is in {'all ' if n > 1 else ''}{plural(n, 'rank')}", f"：agent 已在全部 {n:,} 个 rank 中"
        )
    others = [text(f"of {world:,} ranks in the job", f"任务共 {world:,} 个 rank")] if world > n else []
    return Answer(
        [text("attached to ", "已附加到 "), target, into], [*others, *about], "good" if len(inside) == n else "plain"
    )


def _alike(rank: Rank) -> tuple[object, ...]:
    return rank.way, str(rank.python), str(rank.torch), tuple(rank.frameworks), rank.agent, rank.note, rank.world_size


def _row(same: Sequence[Rank], names: Mapping[int, str]) -> list[Inline]:
    rank = same[0]
    which = (
        named(names[r.rank] for r in same) if names else f"{compact_ranks([r.rank for r in same])} of {rank.world_size}"
    )
    pids = [r.pid for r in same]
    return [
        Span(which, "strong"),
        rank_list(pids) if len(pids) <= 4 else f"{len(pids)} pids",
        rank.way if rank.agent else [Span("none", "warn"), f" ({rank.way})"],
        measured(rank.python, str),
        measured(rank.torch, str),
        ", ".join(rank.frameworks) or DASH,
    ]


def _note(rank: Rank, told: Mapping[tuple[int | None, int], str]) -> str:
    """What its card has not said already."""
    return "" if told.get((rank.rank, rank.pid)) == rank.note else rank.note
