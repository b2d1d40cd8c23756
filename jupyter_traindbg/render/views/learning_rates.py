"""`LearningRates`: every param group of every optimizer, as scheduled and as used; what is in force and what was changed. Ranks that agree
are shown once."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

from ...language import text
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
from ...step_numbers import same_step, step_words
from ..blocks import Answer, Block, Column, Inline, Items, Line, Span, Table, Tone
from ..common import DASH, clock, measured, notes_of, setting, step_columns
from ..grouping import compact_ranks, group_by
from ..notations import counts, settings
from ..units import count, number, plural

DIFFERENT = 6
"""So many groups of ranks that differ are shown in full."""
LOG, FIGURES, AHEAD = 3, 20, 3
WAYS = {"falling": ("falling by", "下调"), "rising": ("rising by", "上调"), "": ("set by", "设定")}
VERBS = {"clip_norm": "clip"}
"""The verb that changes a setting, where it is called otherwise."""


def view(result: LearningRates) -> Iterator[Block]:
    groups = sorted(group_by(result.ranks, _key), key=len)
    yield _answer(result.ranks)
    for same in groups[:DIFFERENT]:
        yield from _ranks(same, alone=len(groups) == 1)
    if len(groups) > DIFFERENT:
        rest = [r.rank for same in groups[DIFFERENT:] for r in same]
        yield Line(
            f"... and {len(groups) - DIFFERENT} more that differ: {compact_ranks(rest)}; see the result's to_dict()"
        )
    notes = notes_of((r.rank, r.note) for r in result.ranks)
    if notes:
        yield Items(notes)


# --- the answer ------------------------------------------------------------------------------------------------------


def _answer(ranks: Sequence[RankLr]) -> Answer:
    about = [compact_ranks([r.rank for r in ranks])] if ranks else []
    optimizers = [o for r in ranks for o in r.optimizers]
    if not optimizers:
        return Answer(text("there is no learning rate to show", "没有可显示的学习率"), about, "warn")
    if _one_each(ranks):
        about += _at(ranks)
    ways = sorted(group_by(ranks, _rates), key=len)
    words, tone = _apart(ways) if len(ways) > 1 else _together(ranks[0])
    return Answer(words, about, tone)


def _rates(rank: RankLr) -> Hashable:
    return repr([(o.optimizer, [_used(g) for g in o.groups]) for o in rank.optimizers])


def _used(group: OptimizerGroup) -> Maybe[float]:
    return group.lr if isinstance(group.effective_lr, NotAvailable) else group.effective_lr


def _one_each(ranks: Sequence[RankLr]) -> bool:
    return all(len(r.optimizers) <= 1 for r in ranks)


def _at(ranks: Sequence[RankLr]) -> list[str]:
    numbers = [n for rank in ranks for o in rank.optimizers if (n := o.number) is not None]
    return [text(f"at {step_words(*numbers)}", step_words(*numbers))] if numbers else []


def _apart(ways: Sequence[Sequence[RankLr]]) -> tuple[str, Tone]:
    """`ways`: ranks that use the same, the rarest first. A schedule gives other rates at another step: that blames nobody."""
    *few, most = ways
    odd = [r for same in few for r in same]
    if _one_each([*odd, *most]) and same_step([o.number for r in (*odd, *most) for o in r.optimizers]) is False:
        said = text(
            "learning rates differ between ranks, which were asked at different steps",
            "各 rank 的学习率不同，但它们是在不同的步被询问的",
        )
        return said, "info"
    who, others, n = compact_ranks([r.rank for r in odd]), compact_ranks([r.rank for r in most]), len(most)
    several = n > 1 and n > len(odd)
    one = len(odd) == 1
    if len(ways) > 2 and not several:
        said = text(
            f"the ranks use {len(ways)} different sets of learning rates", f"各 rank 使用 {len(ways)} 组不同的学习率"
        )
        return said, "warn"
    rest, rest_zh = (f"the {n} others", f"其余 {n} 个") if several else (others, others)
    if not any(r.optimizers for r in odd):
        use = f"use{'s' * (n == 1)} lr {_figures(most[0])}"
        return text(
            f"{who} {'has' if one else 'have'} no optimizer, {rest} {use}",
            f"{who} 没有优化器，{rest_zh}使用 {_figures(most[0])}",
        ), "warn"
    verb = "uses" if one else "use"
    if len(ways) > 2 or _figures(odd[0]) == _figures(most[0]):
        return text(f"{who} {verb} other learning rates than {rest}", f"{who} 的学习率与{rest_zh}不同"), "warn"
    ours, theirs = _figures(odd[0]), _figures(most[0])
    return text(f"{who} {verb} lr {ours}, {rest} {theirs}", f"{who} 使用学习率 {ours}，{rest_zh}使用 {theirs}"), "warn"


def _figures(rank: RankLr) -> str:
    """``3e-4``, ``3e-5, 3e-4``, ``1e-6 to 3e-4``."""
    known = dict.fromkeys(r for o in rank.optimizers for g in o.groups if not isinstance(r := _used(g), NotAvailable))
    figures = list(dict.fromkeys(_figure(rate) for rate in known))
    if len(figures) <= 3:
        return ", ".join(figures) or "–"
    return text("{} to {}", "{} 至 {}").format(_figure(min(known)), _figure(max(known)))


def _together(rank: RankLr) -> tuple[Inline, Tone]:
    """What one rank uses, and why."""
    rates = [_used(g) for o in rank.optimizers for g in o.groups]
    known = [rate for rate in rates if not isinstance(rate, NotAvailable)]
    if not known:
        reason = next((rate.reason for rate in rates if isinstance(rate, NotAvailable)), "")
        return [text("the learning rate is not known", "学习率未知"), Span("", why=reason)], "warn"
    changed = [a for a in rank.in_force if a.setting == "lr"]
    others = len(rank.in_force) - len(changed)
    ahead, tone = _ahead(rank)
    if len({(a.action, str(a.scheduled), str(a.effective)) for a in changed}) == 1:
        words = _held(changed)
    else:
        where, where_zh = _where(rank.optimizers, len(set(known)))
        ours = (f", changed in {plural(len(changed), 'group')}", f"，其中 {len(changed)} 组已被修改")
        behind, behind_zh = ours if changed else ahead
        words = text(f"lr {_figures(rank)} {where}{behind}", f"{where_zh}的学习率为 {_figures(rank)}{behind_zh}")
    if others:
        words += text(f"; {plural(others, 'other change')} in force", f"；另有 {others} 项修改生效中")
    return words, "bad" if not all(map(math.isfinite, known)) else "info" if rank.in_force else tone


def _held(changed: Sequence[InForce]) -> str:
    """One action on the learning rate, in force on one group or on several that are alike."""
    first = changed[0]
    mode, _, factor = first.action.partition(" ")
    used, own = measured(first.effective, _figure).text, measured(first.scheduled, _figure).text
    where, where_zh = (whose(first),) * 2 if len(changed) == 1 else (f"{len(changed)} groups", f"{len(changed)} 组")
    if mode == "scale":
        return text(
            f"lr {used} in {where}: {own}, which the training sets, x {factor}",
            f"{where_zh} 的学习率为 {used}：训练设定的 {own} × {factor}",
        )
    return text(
        f"lr {used} is held in {where}; the training itself sets {own}",
        f"{where_zh} 的学习率固定为 {used}；训练自身设定为 {own}",
    )


def _where(optimizers: Sequence[OptimizerLr], different: int) -> tuple[str, str]:
    names = list(dict.fromkeys(o.optimizer for o in optimizers))
    n = sum(len(o.groups) for o in optimizers)
    who, who_zh = (f"{len(names)} optimizers", f"{len(names)} 个优化器") if len(names) > 3 else (", ".join(names),) * 2
    if n == 1:
        return f"of {who}", f"{who_zh} "
    return (
        f"in {'all ' if different == 1 else ''}{n} groups of {who}",
        f"{who_zh} {'全部 ' if different == 1 else ''}{n} 组",
    )


def _ahead(rank: RankLr) -> tuple[tuple[str, str], Tone]:
    """Which way the schedule goes from here, where there is one that could tell; and whether a rate of zero is worth a look."""
    names = list(dict.fromkeys(o.scheduler for o in rank.optimizers if not isinstance(o.scheduler, NotAvailable)))
    ways = {_way(g) for o in rank.optimizers for g in o.groups}
    zero = not any(_used(g) for o in rank.optimizers for g in o.groups) and ways != {"rising"}
    tone: Tone = "warn" if zero else "plain"
    if len(names) != 1 or any(isinstance(o.scheduler, NotAvailable) for o in rank.optimizers):
        return ("", ""), tone
    way, way_zh = WAYS[ways.pop()] if len(ways) == 1 else WAYS[""]
    return (f", {way} {names[0]}", f"，由 {names[0]} {way_zh}"), tone


def _way(group: OptimizerGroup) -> str:
    if isinstance(group.lr, NotAvailable) or isinstance(group.next_lr, NotAvailable) or not group.next_lr:
        return ""
    last = group.next_lr[-1]
    return "falling" if last < group.lr else "rising" if last > group.lr else ""


# --- groups ----------------------------------------------------------------------------------------------------------


def _key(rank: RankLr) -> Hashable:
    optimizers = [(o.optimizer, o.scheduler, o.scheduler_step, list(o.groups)) for o in rank.optimizers]
    return repr((optimizers, list(rank.in_force), [entry.change for entry in rank.log]))


def _ranks(same: Sequence[RankLr], *, alone: bool) -> Iterator[Block]:
    """Ranks that are alike; `alone` where there are no others, of whom they would have to be told apart."""
    who = compact_ranks([r.rank for r in same])
    if not same[0].optimizers and not alone:
        yield Line([Span(who, "strong"), ": no optimizer"])
    if same[0].in_force:
        lead: Inline = [Span("in force", "warn"), "" if alone else f" on {who}"]
        yield Items([in_force(action) for action in same[0].in_force], lead=lead)
    for n, optimizer in enumerate(same[0].optimizers):
        numbers = [number for rank in same if (number := rank.optimizers[n].number) is not None]
        told = alone and len(same[0].optimizers) == 1
        at = f" · at {step_words(*numbers)}" if numbers and not told else ""
        of = "" if alone else f" of {who}"
        yield _table(optimizer, f"{optimizer.optimizer}{of}{at} · {_scheduler(optimizer)}")
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
    pairs = [(measured(r.before, _figure), measured(r.after, _figure)) for r in rows]
    return list({(before.text, after.text): (before, after) for before, after in pairs}.values())[:FIGURES]


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
    columns = [Column("group"), Column("scheduled lr" if differs else "lr", right=True, notation=settings)]
    columns += [Column("used", right=True, notation=settings)] if differs else []
    ahead = any(
        not isinstance(g.next_lr, NotAvailable) or not isinstance(optimizer.scheduler, NotAvailable) for g in groups
    )
    columns += [Column("next", spare=True)] if ahead else []
    columns += [
        Column("weight decay", right=True, notation=settings),
        *([Column("decay used", right=True, notation=settings)] if decays else []),
        Column("momentum"),
        Column("parameters", right=True, spare=True),
        Column("elements", right=True, notation=counts),
    ]

    def row(g: OptimizerGroup) -> list[Inline]:
        cells: list[Inline] = [Span(str(g.index), "strong"), _lr(g.lr) if differs else _strong(g.lr)]
        cells += [_strong(g.effective_lr)] if differs else []
        if ahead:
            cells.append(measured(g.next_lr, _next))
        decay: list[Inline] = [setting(g.weight_decay)]
        decay += [_strong(g.effective_weight_decay)] if decays else []
        return [*cells, *decay, _momentum(g), f"{g.parameters:,}", measured(g.elements, count)]

    return Table(caption, columns, [row(g) for g in groups], 20, "groups")


def _next(following: Sequence[float]) -> str:
    """The first ones; `LearningRates` has the rest."""
    more = ", ..." if len(following) > AHEAD else ""
    return ", ".join(number(lr, 4) for lr in following[:AHEAD]) + more or "–"


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
