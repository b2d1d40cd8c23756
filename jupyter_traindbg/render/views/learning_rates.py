"""`LearningRates`: every param group of every optimizer, as scheduled and as used; what is in force and what was changed. Ranks that follow
one schedule are shown once. Where another setting was asked about, what has to do with that one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace

from ...language import pgettext, text
from ...model import (
    InForce,
    LearningRates,
    LogEntry,
    Maybe,
    NotAvailable,
    OptimizerGroup,
    OptimizerLr,
    RankLr,
)
from ...schedules import joined
from ...step_numbers import step_words
from ...words.ranks import compact_ranks
from ..blocks import PLACE, Block, Column, Inline, Items, Line, Span, Table, within
from ..common import DASH, clock, measured, notes_of, setting, step_columns
from ..grouping import group_by
from ..notations import counts, settings
from ..settings_answer import action_words, answer, figure, whose
from ..units import count, number

DIFFERENT = 6
"""So many groups of ranks that differ are shown in full."""
LOG, FIGURES, AHEAD = 3, 20, 3
VERBS = {"clip_norm": "clip"}
"""The verb that changes a setting, where it is called otherwise."""


def view(result: LearningRates) -> Iterator[Block]:
    yield answer(result)
    groups = sorted(_groups(result), key=len)
    for same in groups[:DIFFERENT]:
        yield from _ranks(same, result.setting, alone=len(groups) == 1)
    if len(groups) > DIFFERENT:
        rest = [r.rank for same in groups[DIFFERENT:] for r in same]
        more, who = len(groups) - DIFFERENT, compact_ranks(rest)
        yield Line(text("... and {n} more that differ: {ranks}; see the result's to_dict()", n=more, ranks=who))
    notes = notes_of((r.rank, r.note) for r in result.ranks)
    if notes:
        yield Items(notes)


# --- groups ----------------------------------------------------------------------------------------------------------


def _key(rank: RankLr) -> Hashable:
    optimizers = [(o.optimizer, o.scheduler, o.scheduler_step, list(o.groups)) for o in rank.optimizers]
    actions = [replace(action, so_far="") for action in rank.in_force]
    return repr((optimizers, actions, [entry.change for entry in rank.log]))


def _groups(result: LearningRates) -> Iterable[Sequence[RankLr]]:
    """Ranks that are alike in what was asked about."""
    if result.setting != "lr":
        return group_by([_of_setting(rank, result.setting) for rank in result.ranks], _key)
    return [course for same in group_by(result.ranks, _fixed) for course in joined(group_by(same, _key))]


def _fixed(rank: RankLr) -> Hashable:
    """`_key` without what a schedule changes from step to step."""
    moves = NotAvailable(text("changes from step to step"))
    optimizers = [
        replace(o, scheduler_step=0, groups=[replace(g, lr=moves, next_lr=moves, effective_lr=moves) for g in o.groups])
        for o in rank.optimizers
    ]
    actions = [replace(a, scheduled=moves, effective=moves) if a.setting == "lr" else a for a in rank.in_force]
    return _key(replace(rank, optimizers=optimizers, in_force=actions))


def _of_setting(rank: RankLr, name: str) -> RankLr:
    """`rank` with what has to do with weight decay, or with clipping, alone."""
    log = [replace(entry, groups=[g for g in entry.groups if g.setting == name]) for entry in rank.log]
    return replace(
        rank,
        optimizers=[_without_rates(o, decays=name == "weight_decay") for o in rank.optimizers],
        in_force=[action for action in rank.in_force if action.setting == name],
        log=[entry for entry in log if entry.groups],
    )


def _without_rates(optimizer: OptimizerLr, *, decays: bool) -> OptimizerLr:
    absent = NotAvailable(text("not asked about"))
    groups = [
        replace(g, lr=absent, next_lr=absent, effective_lr=absent, momentum=None, betas=None) for g in optimizer.groups
    ]
    return replace(optimizer, scheduler=absent, scheduler_step=absent, groups=groups if decays else ())


def _ranks(same: Sequence[RankLr], name: str, *, alone: bool) -> Iterator[Block]:
    """Ranks that are alike; `alone` where there are no others, of whom they would have to be told apart."""
    who = compact_ranks([r.rank for r in same])
    if not same[0].optimizers and not alone:
        yield Line([Span(who, "strong"), text(": no optimizer")])
    if same[0].in_force:
        said = text("in force")
        lead: Inline = within(text("{in_force} on {who}", in_force=PLACE, who=who), Span(said, "warn"))
        if alone:
            lead = Span(said, "warn")
        one = text(" (rank {rank})", rank=same[0].rank) if len(same) > 1 else ""
        yield Items([in_force(action, one) for action in same[0].in_force], lead=lead)
    for n, optimizer in enumerate(same[0].optimizers):
        numbers = [number for rank in same if (number := rank.optimizers[n].number) is not None]
        told = alone and len(same[0].optimizers) == 1
        at = text(" · at {step}", step=step_words(*numbers)) if numbers and not told else ""
        whose_ = text("{optimizer} of {who}", optimizer=optimizer.optimizer, who=who)
        caption = f"{optimizer.optimizer if alone else whose_}{at}"
        if name == "lr":
            yield _rates(optimizer, f"{caption} · {_scheduler(optimizer)}")
        elif name == "weight_decay":
            yield _decays(optimizer, caption)
    if same[0].log:
        yield _log(same)


def in_force(action: InForce, of: str = "") -> Inline:
    """``AdamW, group 0: lr, hold 0.0001, 3e-4 → 1e-4``. `of`: whose figures those are that every rank has for itself."""
    comma = text(", ")
    what = f"{_setting_words(action.setting)}{comma}{action_words(action.action)}"
    words: list[str | Span] = [whose(action), text(": "), Span(what, "strong")]
    if action.setting != "clip_norm":
        words += [comma, measured(action.scheduled, figure), " → ", measured(action.effective, figure)]
    so_far = action.so_far and f"{action.so_far}{of}"
    return [*words, *(f" · {said}" for said in (so_far, action.note) if said)]


def _log(same: Sequence[RankLr]) -> Table:
    """The changes, newest first. Ranks count steps from when their agents came: the steps are those of the first rank shown."""
    entries = list(reversed(same[0].log))
    numbered = step_columns((e.number for e in entries), text("from step"))
    columns = [*(column for column, _ in numbered), Column(pgettext("a time", "at"), right=True, spare=True)]
    columns += [Column(text("change"), wrap=True)]
    valued = any(_pairs(entry) for entry in entries)
    columns += [Column(text("before → after"), wrap=True)] if valued else []
    caption = text("changes, newest first")
    if len(same) > 1:
        caption = text("changes, newest first (rank {rank}'s attach)", rank=same[0].rank)
    rows: list[list[Inline]] = [
        [*(show(e.number) for _, show in numbered), clock(e.time_s), e.change, *([_before_after(e)] if valued else [])]
        for e in entries
    ]
    return Table(caption, columns, rows, LOG, pgettext("more", "changes"))


def _setting_words(name: str) -> str:
    said = {"lr": pgettext("heading", "lr"), "weight_decay": text("weight decay"), "clip_norm": text("clip norm")}
    return said.get(name, name.replace("_", " "))


def succession(entry: LogEntry) -> str:
    """What became of what was in force, in one line for a cell's output: ``lr (0.01 → 1e-3) went over to ...``."""
    names = dict.fromkeys(row.setting for row in entry.groups)
    pairs = "; ".join(f"{before.text} → {after.text}" for before, after in _pairs(entry))
    both = pgettext("list", " and ")
    what = both.join(map(_setting_words, names)) or text("what was in force")
    ends = both.join(f"`%{VERBS.get(name, name)} --release`" for name in names)
    figures, release = f" ({pairs})" if pairs else "", text("; {ends} ends it", ends=ends) if ends else ""
    return f"{what}{figures} {entry.change}{release}"


def _before_after(entry: LogEntry) -> Inline:
    words: list[str | Span] = []
    for before, after in _pairs(entry):
        words += [*([text("; ")] if words else []), before, " → ", after]
    return words or DASH


def _pairs(entry: LogEntry) -> list[tuple[Span, Span]]:
    rows = [r for r in entry.groups if r.setting != "clip_norm"]
    pairs = [(measured(r.before, figure), measured(r.after, figure)) for r in rows]
    return list({(before.text, after.text): (before, after) for before, after in pairs}.values())[:FIGURES]


def _scheduler(optimizer: OptimizerLr) -> str:
    if isinstance(optimizer.scheduler, NotAvailable):
        return optimizer.scheduler.reason
    if isinstance(optimizer.scheduler_step, NotAvailable):
        return optimizer.scheduler
    return text(
        "{scheduler} at its step {step}",
        scheduler=optimizer.scheduler,
        step=optimizer.scheduler_step,
    )


def _rates(optimizer: OptimizerLr, caption: str) -> Table:
    groups = optimizer.groups
    differs = any(not _same(g.lr, g.effective_lr) for g in groups)
    decays = _decay_differs(optimizer)
    name = text("scheduled lr") if differs else pgettext("heading", "lr")
    columns = [Column(text("group")), Column(name, right=True, notation=settings)]
    columns += [Column(pgettext("a rate", "used"), right=True, notation=settings)] if differs else []
    ahead = any(
        not isinstance(g.next_lr, NotAvailable) or not isinstance(optimizer.scheduler, NotAvailable) for g in groups
    )
    columns += [Column(pgettext("rates", "next"), spare=True)] if ahead else []
    columns += [
        Column(text("weight decay"), right=True, notation=settings),
        *([Column(text("decay used"), right=True, notation=settings)] if decays else []),
        Column(text("momentum")),
        Column(text("elements"), right=True, notation=counts),
    ]

    def row(g: OptimizerGroup) -> list[Inline]:
        cells: list[Inline] = [Span(str(g.index), "strong"), _lr(g.lr) if differs else _strong(g.lr)]
        cells += [_strong(g.effective_lr)] if differs else []
        if ahead:
            cells.append(measured(g.next_lr, _next))
        decay: list[Inline] = [setting(g.weight_decay)]
        decay += [_strong(g.effective_weight_decay)] if decays else []
        return [*cells, *decay, _momentum(g), measured(g.elements, count)]

    return Table(caption, columns, [row(g) for g in groups], 20, pgettext("more", "groups"))


def _decays(optimizer: OptimizerLr, caption: str) -> Table:
    differs = _decay_differs(optimizer)
    columns = [Column(text("group")), Column(text("weight decay"), right=True, notation=settings)]
    columns += [Column(text("decay used"), right=True, notation=settings)] if differs else []
    columns += [Column(text("parameters"), right=True, spare=True)]
    columns += [Column(text("elements"), right=True, notation=counts)]

    def row(g: OptimizerGroup) -> list[Inline]:
        decay = setting(g.weight_decay)
        cells: list[Inline] = [decay, _strong(g.effective_weight_decay)] if differs else [replace(decay, tone="strong")]
        return [Span(str(g.index), "strong"), *cells, f"{g.parameters:,}", measured(g.elements, count)]

    return Table(caption, columns, [row(g) for g in optimizer.groups], 20, pgettext("more", "groups"))


def _decay_differs(optimizer: OptimizerLr) -> bool:
    return any(not _same(_maybe(g.weight_decay), g.effective_weight_decay) for g in optimizer.groups)


def _next(following: Sequence[float]) -> str:
    """The first ones; `LearningRates` has the rest."""
    more = ", ..." if len(following) > AHEAD else ""
    return ", ".join(number(lr, 4) for lr in following[:AHEAD]) + more or "–"


def _same(scheduled: Maybe[float], effective: Maybe[float]) -> bool:
    """Whether there is one figure to show: also where the effective one was not measured."""
    return isinstance(effective, NotAvailable) or scheduled == effective


def _maybe(value: float | None) -> Maybe[float]:
    return NotAvailable(text("there is none")) if value is None else value


def _lr(lr: Maybe[float]) -> Span:
    return measured(lr, str) if isinstance(lr, NotAvailable) else setting(lr)


def _strong(lr: Maybe[float]) -> Span:
    shown = _lr(lr)
    return replace(shown, tone="strong") if shown.tone == "plain" else shown


def _momentum(g: OptimizerGroup) -> Inline:
    if g.betas is not None:
        return "betas " + ", ".join("–" if b is None else number(b, 4) for b in g.betas)
    return DASH if g.momentum is None else number(g.momentum)
