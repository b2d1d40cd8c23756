"""`LearningRates`: every param group of every optimizer; ranks that agree are shown once."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

from ...model import LearningRates, Maybe, NotAvailable, OptimizerGroup, OptimizerLr, RankLr
from ..blocks import Block, Column, Inline, Items, Line, Span, Table
from ..common import DASH, measured, notes_of, setting
from ..grouping import compact_ranks, group_by
from ..units import count, number

DIFFERENT = 6
"""So many groups of ranks that differ are shown in full."""


def view(result: LearningRates) -> Iterator[Block]:
    groups = sorted(group_by(result.ranks, _key), key=len)
    agree = "" if len(groups) <= 1 else f": they differ, in {len(groups)} ways, the rarest first"
    yield Line(f"learning rates of {compact_ranks([r.rank for r in result.ranks])}{agree}", title=True)
    for same in groups[:DIFFERENT]:
        yield from _ranks(same)
    if len(groups) > DIFFERENT:
        rest = [r.rank for same in groups[DIFFERENT:] for r in same]
        yield Line(
            f"... and {len(groups) - DIFFERENT} more that differ: {compact_ranks(rest)}; see the result's to_dict()"
        )
    notes = notes_of((r.rank, r.note) for r in result.ranks)
    if notes:
        yield Items(notes)


def _key(rank: RankLr) -> Hashable:
    return repr([(o.optimizer, o.scheduler, o.scheduler_step, list(o.groups)) for o in rank.optimizers])


def _ranks(same: Sequence[RankLr]) -> Iterator[Block]:
    who = compact_ranks([r.rank for r in same])
    if not same[0].optimizers:
        yield Line([Span(who, "strong"), ": no optimizer"])
    for optimizer in same[0].optimizers:
        yield _table(optimizer, f"{optimizer.optimizer} of {who} · {_scheduler(optimizer)}")


def _scheduler(optimizer: OptimizerLr) -> str:
    if isinstance(optimizer.scheduler, NotAvailable):
        return optimizer.scheduler.reason
    at = "" if isinstance(optimizer.scheduler_step, NotAvailable) else f" at its step {optimizer.scheduler_step}"
    return f"{optimizer.scheduler}{at}"


def _table(optimizer: OptimizerLr, caption: str) -> Table:
    groups = optimizer.groups
    columns = [Column("group"), Column("lr", right=True)]
    ahead = any(
        not isinstance(g.next_lr, NotAvailable) or not isinstance(optimizer.scheduler, NotAvailable) for g in groups
    )
    columns += [Column("next", wrap=True)] if ahead else []
    columns += [
        Column("weight decay", right=True),
        Column("momentum"),
        Column("parameters", right=True, spare=True),
        Column("elements", right=True),
    ]

    def row(g: OptimizerGroup) -> list[Inline]:
        cells: list[Inline] = [Span(str(g.index), "strong"), _strong(g.lr)]
        if ahead:
            cells.append(measured(g.next_lr, lambda following: ", ".join(number(lr, 4) for lr in following) or "–"))
        return [*cells, setting(g.weight_decay), _momentum(g), f"{g.parameters:,}", count(g.elements)]

    return Table(caption, columns, [row(g) for g in groups], 20, "groups")


def _strong(lr: Maybe[float]) -> Span:
    shown = measured(lr, str) if isinstance(lr, NotAvailable) else setting(lr)
    return replace(shown, tone="strong") if shown.tone == "plain" else shown


def _momentum(g: OptimizerGroup) -> Inline:
    if g.betas is not None:
        return "betas " + ", ".join("–" if b is None else number(b, 4) for b in g.betas)
    return DASH if g.momentum is None else number(g.momentum)
