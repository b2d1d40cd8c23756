"""`Changed`: what was changed from which step on, before and after; ranks that agree are shown once."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

from ...language import counted, later, named, pgettext, text
from ...model import Changed, GroupChange, NotAvailable, RankChange
from ...step_numbers import from_step
from ...words.durations import duration
from ...words.ranks import compact_ranks
from ..blocks import Answer, Block, Column, Inline, Items, Line, Span, Table, Tone
from ..common import DASH, measured, notes_of
from ..findings import tone
from ..grouping import group_by
from ..notations import settings
from ..settings_answer import RELEASED, action_words
from ..units import number

DIFFERENT = 6
"""So many groups of ranks that differ are shown in full."""
TONES: dict[str, Tone] = {"verified": "good", "in force": "info", "armed": "warn", "differs": "bad"}
STATES = {
    "verified": later("verified"),
    "in force": later("in force"),
    "armed": later("armed"),
    "differs": later("differs"),
}
WORST = ("differs", "armed", "in force", "verified")
SETTINGS = {
    "lr": later("lr"),
    "weight_decay": later("weight decay"),
    "clip_norm": later("clip norm"),
}
VERBS = {"armed": later("becomes"), "differs": later("was to be")}


def view(result: Changed) -> Iterator[Block]:
    groups = sorted(group_by(result.ranks, _key), key=len)
    yield _answer(result, groups)
    for same in groups[:DIFFERENT]:
        yield from _ranks(same, alone=len(groups) == 1)
    if len(groups) > DIFFERENT:
        rest = [r.rank for same in groups[DIFFERENT:] for r in same]
        yield Line(text("... and {n} more that differ: {ranks}", n=len(groups) - DIFFERENT, ranks=compact_ranks(rest)))
    notes = notes_of((r.rank, r.note) for r in result.ranks)
    if notes:
        yield Items(notes)
    if result.undo:
        yield Line([Span(text("undo: "), "strong"), result.undo])


# --- the answer ------------------------------------------------------------------------------------------------------


def _answer(result: Changed, groups: Sequence[Sequence[RankChange]]) -> Answer:
    """`groups`: ranks that are alike, the rarest first."""
    ranks = result.ranks
    about = [compact_ranks([r.rank for r in ranks])] if ranks else []
    about += [result.target, duration(result.waited_s)]
    if not result.undo:
        about.insert(0, result.change)  # what was taken back is not seen by what counts now
    if not ranks:
        return Answer(text("no rank says that it has changed"), about, "bad")
    if not any(r.groups for r in ranks):
        said = text("nothing was in force, so nothing has changed")
        return Answer(said, about, "info")
    alike = len(groups) == 1
    states = {r.state for r in ranks}
    worst = next((state for state in WORST if state in states), ranks[0].state)
    of_worst = [r for r in ranks if r.state == worst]
    rows = next(same[0].groups for same in (of_worst, *reversed(groups)) if same[0].groups)
    if alike and worst != "armed":
        about.insert(0, from_step(ranks))
    who = compact_ranks([r.rank for r in of_worst]) if len(of_worst) < len(ranks) else ""
    words = text("; ").join(
        _setting(same, worst) for same in group_by(rows, lambda g: (g.setting, g.action == RELEASED))
    )
    words += _seen(worst, who)
    if not alike and not who:
        words += text("; the ranks differ")
    if result.silent:
        words += counted("; {n:,} rank gave no answer", "; {n:,} ranks gave no answer", len(result.silent))
    return Answer(words, about, _tone(result, worst, alike=alike))


def _tone(result: Changed, worst: str, *, alike: bool) -> Tone:
    if worst == "differs" or tone(result.findings) == "bad":
        return "bad"
    if worst == "armed" or result.silent or not alike or tone(result.findings) == "warn":
        return "warn"
    return TONES.get(worst, "info")


def _seen(state: str, who: str) -> str:
    """What the first step under it has shown; `who`: on which ranks, where not on all."""
    on = text(" on {who}", who=who) if who else ""
    if state == "verified":
        return text(", and the first step used it")
    if state == "armed":
        return text(" at the next step{on}: none has come yet", on=on)
    return text(", and the first step{on} did not use it", on=on) if state == "differs" else ""


def _setting(rows: Sequence[GroupChange], state: str) -> str:
    """Of one setting in all groups that were changed in one way: ``lr is 1e-4 in group 0 (3e-4 before)``."""
    first = rows[0]
    name = named(SETTINGS, first.setting)
    verb = text(VERBS.get(state, later("is")))
    where = "" if first.group is None else text(" in group {group}", group=first.group)
    if len(rows) > 1:
        where = text(" in {n} groups", n=len(rows))
    after, before = (_figures([getattr(g, moment) for g in rows]) for moment in ("after", "before"))
    was = text(" ({before} before)", before=before) if before and before != after else ""
    if before == after and first.action != RELEASED and state != "differs":
        verb = text("stays")
    if first.action == RELEASED:
        own = text(": {figures}", figures=after) if after else ""
        return text(
            "{name} {verb} the training's own again{where}{own}{was}",
            name=name,
            verb=verb,
            where=where,
            own=own,
            was=was,
        )
    if not after:
        return text("{name}: {action}{where}", name=name, action=action_words(first.action), where=where)
    mode, _, factor = first.action.partition(" ")
    scaled = mode == "scale" and len({g.action for g in rows}) == 1
    times = text(", the schedule x {factor}", factor=factor) if scaled else ""
    return text(
        "{name} {verb} {after}{where}{times}{was}", name=name, verb=verb, after=after, where=where, times=times, was=was
    )


def _figures(values: Sequence[float | NotAvailable]) -> str:
    """``3e-4``, ``1e-4, 3e-6``, ``1e-6 to 3e-4``; nothing where none is known."""
    known = [v for v in values if not isinstance(v, NotAvailable)]
    figures = list(dict.fromkeys(map(_short, known)))
    if len(figures) <= 3:
        return ", ".join(figures)
    return text("{least} to {most}", least=_short(min(known)), most=_short(max(known)))


# --- ranks -----------------------------------------------------------------------------------------------------------


def _key(rank: RankChange) -> Hashable:
    return repr((rank.state, rank.optimizer_step, list(rank.groups)))


def _ranks(same: Sequence[RankChange], *, alone: bool) -> Iterator[Block]:
    """Ranks that are alike; `alone` where there are no others, of whom they would have to be told apart."""
    if not alone:
        who, state = compact_ranks([r.rank for r in same]), same[0].state
        said = named(STATES, state)
        yield Line([Span(who, "strong"), text(": "), Span(said, TONES.get(state, "plain")), f" {from_step(same)}"])
        if not same[0].groups:
            yield Line(text("nothing was in force there, so nothing has changed"))
    if same[0].groups:
        yield _table(same[0].groups)


def _table(groups: Sequence[GroupChange]) -> Table:
    changed = {g.setting for g in groups}
    notation = settings if len(changed) == 1 else None  # a rate and a weight decay are not compared
    columns = [Column(text("optimizer")), Column(text("group")), Column(text("setting"))]
    moments = (pgettext("a rate", "scheduled"), text("before"), text("after"))
    columns += [Column(moment, right=True, notation=notation) for moment in moments]
    columns += [Column(text("action"), wrap=True)]
    notes = any(g.note for g in groups)
    columns += [Column(text("note"), wrap=True)] if notes else []
    clipping_only = changed == {"clip_norm"}

    def row(g: GroupChange) -> list[Inline]:
        cells: list[Inline] = [
            Span(f"{g.optimizer} {g.optimizer_class}", "strong"),
            pgettext("groups", "all") if g.group is None else str(g.group),
            named(SETTINGS, g.setting),
            DASH if clipping_only else measured(g.scheduled, _short),
            measured(g.before, _short),
            _strong(measured(g.after, _short)),
            action_words(g.action),
        ]
        return [*cells, g.note or DASH] if notes else cells

    return Table(text("before → after"), columns, [row(g) for g in groups], 20, pgettext("more", "values"))


def _short(value: float) -> str:
    return number(value, 4)


def _strong(span: Span) -> Span:
    return replace(span, tone="strong") if span.tone == "plain" else span
