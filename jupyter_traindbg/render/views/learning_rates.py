"""`LearningRates`: every param group of every optimizer, as scheduled and as used; what is in force and what was changed. Ranks that agree
are shown once."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

from ...model import (
    GroupChange,
    InForce,
    LearningRates,
    LogEntry,
    Maybe,
    NotAvailable,
    OptimizerGroup,
    OptimizerLr,
    RankLr,
)
from ...step_numbers import step_words
from ..blocks import Block, Column, Inline, Items, Line, Span, Table
from ..common import DASH, clock, measured, notes_of, setting, step_columns
from ..grouping import compact_ranks, group_by
from ..units import count, number

DIFFERENT = 6
"""So many groups of ranks that differ are shown in full."""
LOG = 20
VERBS = {"clip_norm": "clip"}
"""The verb that changes a setting, where it is called otherwise."""


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
    optimizers = [(o.optimizer, o.scheduler, o.scheduler_step, list(o.groups)) for o in rank.optimizers]
    return repr((optimizers, list(rank.in_force), [entry.change for entry in rank.log]))


def _ranks(same: Sequence[RankLr]) -> Iterator[Block]:
    who = compact_ranks([r.rank for r in same])
    if not same[0].optimizers:
        yield Line([Span(who, "strong"), ": no optimizer"])
    for n, optimizer in enumerate(same[0].optimizers):
        numbers = [number for rank in same if (number := rank.optimizers[n].number) is not None]
        at = f" · at {step_words(*numbers)}" if numbers else ""
        yield _table(optimizer, f"{optimizer.optimizer} of {who}{at} · {_scheduler(optimizer)}")
    if same[0].in_force:
        yield Items([in_force(action) for action in same[0].in_force], lead=[Span("in force", "warn"), f" on {who}"])
    if same[0].log:
        yield _log(same)


def in_force(action: InForce) -> Inline:
    """``AdamW, group 0: lr, hold 0.0001, 3e-4 → 1e-4``."""
    what = f"{action.setting.replace('_', ' ')}, {action.action}"
    words: list[str | Span] = [whose(action), ": ", Span(what, "strong")]
    if action.setting != "clip_norm":
        words += [", ", measured(action.scheduled, _figure), " → ", measured(action.effective, _figure)]
    return [*words, f" · {action.note}" if action.note else ""]


def whose(row: InForce | GroupChange) -> str:
    """``AdamW, group 1``, with the number of the optimizer where it is not the first."""
    name = row.optimizer_class + (f" (optimizer {row.optimizer})" if row.optimizer else "")
    return name if row.group is None else f"{name}, group {row.group}"


def _log(same: Sequence[RankLr]) -> Table:
    """The changes, newest first. Ranks count steps from when their agents came: the steps are those of the first rank shown."""
    entries = list(reversed(same[0].log))
    numbered = step_columns((e.number for e in entries), "from step")
    columns = [*(column for column, _ in numbered), Column("at", right=True, spare=True)]
    columns += [Column("change", wrap=True), Column("before → after", wrap=True)]
    of = f" (rank {same[0].rank}'s attach)" if len(same) > 1 else ""
    rows: list[list[Inline]] = [
        [*(show(e.number) for _, show in numbered), clock(e.time_s), e.change, _before_after(e)] for e in entries
    ]
    return Table(f"changes, newest first{of}", columns, rows, LOG, "changes")


def succession(entry: LogEntry) -> str:
    """What became of what was in force, in one line for a cell's output: ``lr (0.01 → 1e-3) went over to ...``."""
    names = dict.fromkeys(row.setting for row in entry.groups)
    pairs = "; ".join(f"{before.text} → {after.text}" for before, after in _pairs(entry))
    what = " and ".join(name.replace("_", " ") for name in names) or "what was in force"
    ends = " and ".join(f"`%{VERBS.get(name, name)} --release`" for name in names)
    figures, release = f" ({pairs})" if pairs else "", f"; {ends} ends it" if ends else ""
    return f"{what}{figures} {entry.change}{release}"


def _before_after(entry: LogEntry) -> Inline:
    words: list[str | Span] = []
    for before, after in _pairs(entry):
        words += [*(["; "] if words else []), before, " → ", after]
    return words or DASH


def _pairs(entry: LogEntry) -> list[tuple[Span, Span]]:
    rows = [r for r in entry.groups if r.setting != "clip_norm"]
    return list(dict.fromkeys((measured(r.before, _figure), measured(r.after, _figure)) for r in rows))[:LOG]


def _figure(value: float) -> str:
    return number(value, 4)


def _scheduler(optimizer: OptimizerLr) -> str:
    if isinstance(optimizer.scheduler, NotAvailable):
        return optimizer.scheduler.reason
    at = "" if isinstance(optimizer.scheduler_step, NotAvailable) else f" at its step {optimizer.scheduler_step}"
    return f"{optimizer.scheduler}{at}"


def _table(optimizer: OptimizerLr, caption: str) -> Table:
    groups = optimizer.groups
    differs = any(not _same(g.lr, g.effective_lr) for g in groups)
    decays = any(not _same(_maybe(g.weight_decay), g.effective_weight_decay) for g in groups)
    columns = [Column("group"), Column("scheduled lr" if differs else "lr", right=True)]
    columns += [Column("used", right=True)] if differs else []
    ahead = any(
        not isinstance(g.next_lr, NotAvailable) or not isinstance(optimizer.scheduler, NotAvailable) for g in groups
    )
    columns += [Column("next", wrap=True)] if ahead else []
    columns += [
        Column("weight decay", right=True),
        *([Column("decay used", right=True)] if decays else []),
        Column("momentum"),
        Column("parameters", right=True, spare=True),
        Column("elements", right=True),
    ]

    def row(g: OptimizerGroup) -> list[Inline]:
        cells: list[Inline] = [Span(str(g.index), "strong"), _lr(g.lr) if differs else _strong(g.lr)]
        cells += [_strong(g.effective_lr)] if differs else []
        if ahead:
            cells.append(measured(g.next_lr, lambda following: ", ".join(number(lr, 4) for lr in following) or "–"))
        decay: list[Inline] = [setting(g.weight_decay)]
        decay += [_strong(g.effective_weight_decay)] if decays else []
        return [*cells, *decay, _momentum(g), f"{g.parameters:,}", count(g.elements)]

    return Table(caption, columns, [row(g) for g in groups], 20, "groups")


def _same(scheduled: Maybe[float], effective: Maybe[float]) -> bool:
    """Whether there is one figure to show: also where the effective one was not measured."""
    return isinstance(effective, NotAvailable) or scheduled == effective


def _maybe(value: float | None) -> Maybe[float]:
    return NotAvailable("there is none") if value is None else value


def _lr(lr: Maybe[float]) -> Span:
    return measured(lr, str) if isinstance(lr, NotAvailable) else setting(lr)


def _strong(lr: Maybe[float]) -> Span:
    shown = _lr(lr)
    return replace(shown, tone="strong") if shown.tone == "plain" else shown


def _momentum(g: OptimizerGroup) -> Inline:
    if g.betas is not None:
        return "betas " + ", ".join("–" if b is None else number(b, 4) for b in g.betas)
    return DASH if g.momentum is None else number(g.momentum)
