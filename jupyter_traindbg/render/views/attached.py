"""`Attached`: whether the agent is in every rank; the ranks, those that are alike in one row; what to type next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...language import counted, later, pgettext, text
from ...language import named as said
from ...model import Attached, Rank
from ...words.durations import duration
from ...words.ranks import compact_ranks, rank_list
from ..blocks import Answer, Block, Column, Inline, Line, Span, Table
from ..common import DASH, measured
from ..grouping import group_by, hosts_of, named

WAYS = {
    "injected": later("injected"),
    "found running": later("found running"),
    "this process": later("this process"),
    "kernel": later("kernel"),
    "outside only": later("outside only"),
    "not entered": later("not entered"),
}
HOSTS_APART = 12
"""Ranks of so many hosts have a row for each of them; those of more share one."""
NEXT = ("%watch", "%diagnose", "%plot", "%stacks", "%grads", "%lr", "%memory", "%gpu")


def view(result: Attached) -> Iterator[Block]:
    yield _answer(result)
    told = {(s.rank, s.pid): s.reason for s in result.silent}
    ranks = list(result.ranks)
    names = {r.rank: r.worker for r in ranks if r.worker}
    columns = [
        Column(text("workers") if names else text("ranks"), wrap=True),
        Column("pid", spare=True),
        Column("agent", wrap=True),
        Column("Python"),
        Column("torch"),
    ]
    columns += [Column(text("frameworks"), wrap=True), Column(text("note"), wrap=True)]
    used = [*[True] * 5, any(r.frameworks for r in ranks), any(_note(r, told) for r in ranks)]
    if any(r.host for r in ranks):
        columns.insert(1, Column(text("host"), wrap=True))
        used.insert(1, True)
    apart = len({r.host for r in ranks}) <= HOSTS_APART
    groups = group_by(ranks, lambda r: (*_alike(r), r.host if apart else ""))
    rows = [[*_row(same, names), _note(same[0], told) or DASH] for same in groups]
    if rows:
        kept = [i for i, use in enumerate(used) if use]
        yield Table(
            text("Workers") if names else text("Ranks"),
            [columns[i] for i in kept],
            [[row[i] for i in kept] for row in rows],
            30,
            pgettext("more", "groups of ranks"),
        )
    separator = pgettext("list", ", ")
    yield Line([text("Next: "), *(part for name in NEXT for part in (Span(name, "code"), separator))][:-1])


def _answer(result: Attached) -> Answer:
    ranks = result.ranks
    closed = [r.rank for r in ranks if not r.agent and r.way == "outside only"]
    inside = [r.rank for r in ranks if r.agent]
    target = Span(result.target, "code")
    about = [duration(result.attach_s)]
    if not ranks:
        return Answer([text("no rank of "), target, text(" was found")], about, "warn")
    n, world = len(ranks), max(r.world_size for r in ranks)
    if closed:
        who = compact_ranks(closed) if inside else text("any of its ranks")
        but = text(", but the agent could not get into {who}", who=who)
        count = text("it is in {count:,} of {n:,}", count=len(inside), n=n)
        return Answer([text("attached to "), target, but], [count, *about], "warn")
    if len(inside) < n:
        into = (
            text(": the agent is in {inside}", inside=compact_ranks(inside))
            if inside
            else text(": no rank was entered")
        )
    else:
        into = counted(": the agent is in {n:,} rank", ": the agent is in all {n:,} ranks", n)
    others = [text("of {world:,} ranks in the job", world=world)] if world > n else []
    return Answer([text("attached to "), target, into], [*others, *about], "good" if len(inside) == n else "plain")


def _alike(rank: Rank) -> tuple[object, ...]:
    return rank.way, str(rank.python), str(rank.torch), tuple(rank.frameworks), rank.agent, rank.note, rank.world_size


def _row(same: Sequence[Rank], names: Mapping[int, str]) -> list[Inline]:
    rank = same[0]
    which = (
        named(names[r.rank] for r in same)
        if names
        else text("{ranks} of {world_size}", ranks=compact_ranks([r.rank for r in same]), world_size=rank.world_size)
    )
    pids, way = [r.pid for r in same], said(WAYS, rank.way)
    return [
        Span(which, "strong"),
        *([hosts_of(r.host for r in same)] if rank.host else []),
        rank_list(pids) if len(pids) <= 4 else text("{n} pids", n=len(pids)),
        way if rank.agent else [Span(pgettext("an agent", "none"), "warn"), f" ({way})"],
        measured(rank.python, str),
        measured(rank.torch, str),
        ", ".join(rank.frameworks) or DASH,
    ]


def _note(rank: Rank, told: Mapping[tuple[int | None, int], str]) -> str:
    """What its card has not said already."""
    return "" if told.get((rank.rank, rank.pid)) == rank.note else rank.note
