"""`Changed`: what was changed from which step on, before and after; ranks that agree are shown once."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

from ...language import text
from ...model import Changed, GroupChange, NotAvailable, RankChange
from ...step_numbers import from_step
from ...words.durations import duration
from ...words.ranks import compact_ranks
from ..blocks import Answer, Block, Column, Inline, Items, Line, Span, Table, Tone
from ..common import DASH, measured, notes_of
from ..findings import tone
from ..grouping import group_by
from ..notations import settings
from ..units import number, plural

DIFFERENT = 6
"""So many groups of ranks that differ are shown in full."""
TONES: dict[str, Tone] = {"verified": "good", "in force": "info", "armed": "warn", "differs": "bad"}
WORST = ("differs", "armed", "in force", "verified")
SETTINGS = {
    "lr": ("lr", "学习率"),
    "weight_decay": ("weight decay", "权重衰减"),
    "clip_norm": ("clip norm", "裁剪范数"),
}
VERBS = {"armed": ("becomes", "将变为"), "differs": ("was to be", "应为")}
RELEASED = "released"


def view(result: Changed) -> Iterator[Block]:
    groups = sorted(group_by(result.ranks, _key), key=len)
    yield _answer(result, groups)
    for same in groups[:DIFFERENT]:
        yield from _ranks(same, alone=len(groups) == 1)
    if len(groups) > DIFFERENT:
        rest = [r.rank for same in groups[DIFFERENT:] for r in same]
        yield Line(f"... and {len(groups) - DIFFERENT} more that differ: {compact_ranks(rest)}")
    notes = notes_of((r.rank, r.note) for r in result.ranks)
    if notes:
        yield Items(notes)
    if result.undo:
        yield Line([Span("undo: ", "strong"), result.undo])


# --- the answer ------------------------------------------------------------------------------------------------------


def _answer(result: Changed, groups: Sequence[Sequence[RankChange]]) -> Answer:
    """`groups`: ranks that are alike, the rarest first."""
    ranks = result.ranks
    about = [compact_ranks([r.rank for r in ranks])] if ranks else []
    about += [result.target, duration(result.waited_s)]
    if not result.undo:
        about.insert(0, result.change)  # what was taken back is not seen by what counts now
    if not ranks:
        return Answer(text("no rank says that it has changed", "没有 rank 确认修改"), about, "bad")
    if not any(r.groups for r in ranks):
        said = text("nothing was in force, so nothing has changed", "没有生效中的修改，因此没有变化")
        return Answer(said, about, "info")
    alike = len(groups) == 1
    states = {r.state for r in ranks}
    worst = next((state for state in WORST if state in states), ranks[0].state)
    of_worst = [r for r in ranks if r.state == worst]
    rows = next(same[0].groups for same in (of_worst, *reversed(groups)) if same[0].groups)
    if alike and worst != "armed":
        about.insert(0, from_step(ranks))
    who = compact_ranks([r.rank for r in of_worst]) if len(of_worst) < len(ranks) else ""
    words = text("; ", "；").join(
        _setting(same, worst) for same in group_by(rows, lambda g: (g.setting, g.action == RELEASED))
    )
    words += _seen(worst, who)
    if not alike and not who:
        words += text("; the ranks differ", "；各 rank 不一致")
    if result.silent:
        n = len(result.silent)
        words += text(f"; {plural(n, 'rank')} gave no answer", f"；{n} 个 rank 没有回答")
    return Answer(words, about, _tone(result, worst, alike=alike))


def _tone(result: Changed, worst: str, *, alike: bool) -> Tone:
    if worst == "differs" or tone(result.findings) == "bad":
        return "bad"
    if worst == "armed" or result.silent or not alike or tone(result.findings) == "warn":
        return "warn"
    return TONES.get(worst, "info")


def _seen(state: str, who: str) -> str:
    """What the first step under it has shown; `who`: on which ranks, where not on all."""
    on, on_zh = (f" on {who}", f" {who} ") if who else ("", "")
    if state == "verified":
        return text(", and the first step used it", "，第一步已使用")
    if state == "armed":
        return text(f" at the next step{on}: none has come yet", f"：{on_zh}下一步生效，该步尚未到来")
    return text(f", and the first step{on} did not use it", f"，但{on_zh}第一步没有使用") if state == "differs" else ""


def _setting(rows: Sequence[GroupChange], state: str) -> str:
    """Of one setting in all groups that were changed in one way: ``lr is 1e-4 in group 0 (3e-4 before)``."""
    first = rows[0]
    name, name_zh = SETTINGS.get(first.setting, (first.setting,) * 2)
    is_, is_zh = VERBS.get(state, ("is", "为"))
    where, where_zh = ("", "") if first.group is None else (f" in group {first.group}", f"第 {first.group} 组的")
    if len(rows) > 1:
        where, where_zh = f" in {len(rows)} groups", f"{len(rows)} 组的"
    after, before = (_figures([getattr(g, moment) for g in rows]) for moment in ("after", "before"))
    was, was_zh = (f" ({before} before)", f"（之前为 {before}）") if before else ("", "")
    if before == after:
        was = was_zh = ""
        if first.action != RELEASED and state != "differs":
            is_, is_zh = "stays", "保持为"
    if first.action == RELEASED:
        own = f": {after}" if after else ""
        return text(
            f"{name} {is_} the training's own again{where}{own}{was}",
            f"{where_zh}{name_zh}{is_zh}训练自身的设定{own.replace(': ', ' ')}{was_zh}",
        )
    if not after:
        return text(f"{name}: {first.action}{where}", f"{where_zh}{name_zh}：{first.action}")
    mode, _, factor = first.action.partition(" ")
    scaled = mode == "scale" and len({g.action for g in rows}) == 1
    times, times_zh = (f", the schedule x {factor}", f"（调度值 × {factor}）") if scaled else ("", "")
    return text(f"{name} {is_} {after}{where}{times}{was}", f"{where_zh}{name_zh}{is_zh} {after}{times_zh}{was_zh}")


def _figures(values: Sequence[float | NotAvailable]) -> str:
    """``3e-4``, ``1e-4, 3e-6``, ``1e-6 to 3e-4``; nothing where none is known."""
    known = [v for v in values if not isinstance(v, NotAvailable)]
    figures = list(dict.fromkeys(map(_short, known)))
    if len(figures) <= 3:
        return ", ".join(figures)
    return text("{} to {}", "{} 至 {}").format(_short(min(known)), _short(max(known)))


# --- ranks -----------------------------------------------------------------------------------------------------------


def _key(rank: RankChange) -> Hashable:
    return repr((rank.state, rank.optimizer_step, list(rank.groups)))


def _ranks(same: Sequence[RankChange], *, alone: bool) -> Iterator[Block]:
    """Ranks that are alike; `alone` where there are no others, of whom they would have to be told apart."""
    if not alone:
        who, state = compact_ranks([r.rank for r in same]), same[0].state
        yield Line([Span(who, "strong"), ": ", Span(state, TONES.get(state, "plain")), f" {from_step(same)}"])
        if not same[0].groups:
            yield Line("nothing was in force there, so nothing has changed")
    if same[0].groups:
        yield _table(same[0].groups)


def _table(groups: Sequence[GroupChange]) -> Table:
    changed = {g.setting for g in groups}
    notation = settings if len(changed) == 1 else None  # a rate and a weight decay are not compared
    columns = [Column("optimizer"), Column("group"), Column("setting")]
    columns += [Column(moment, right=True, notation=notation) for moment in ("scheduled", "before", "after")]
    columns += [Column("action", wrap=True)]
    notes = any(g.note for g in groups)
    columns += [Column("note", wrap=True)] if notes else []
    clipping_only = changed == {"clip_norm"}

    def row(g: GroupChange) -> list[Inline]:
        cells: list[Inline] = [
            Span(f"{g.optimizer} {g.optimizer_class}", "strong"),
            "all" if g.group is None else str(g.group),
            g.setting.replace("_", " "),
            DASH if clipping_only else measured(g.scheduled, _short),
            measured(g.before, _short),
            _strong(measured(g.after, _short)),
            g.action,
        ]
        return [*cells, g.note or DASH] if notes else cells

    return Table("before → after", columns, [row(g) for g in groups], 20, "values")


def _short(value: float) -> str:
    return number(value, 4)


def _strong(span: Span) -> Span:
    return replace(span, tone="strong") if span.tone == "plain" else span
