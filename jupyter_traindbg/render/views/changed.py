"""`Changed`: what was changed from which step on, before and after; ranks that agree are shown once."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from ...model import Changed, GroupChange, RankChange
from ...step_numbers import from_step
from ..blocks import Block, Column, Inline, Items, Line, Span, Table, Tone
from ..common import DASH, measured, notes_of
from ..grouping import compact_ranks, group_by
from ..units import duration, number, plural

DIFFERENT = 6
"""So many groups of ranks that differ are shown in full."""
TONES: dict[str, Tone] = {"verified": "good", "in force": "info", "armed": "warn", "differs": "bad"}


def view(result: Changed) -> Iterator[Block]:
    yield Line([Span(result.change, "strong"), f" · {_state(result)} · {duration(result.waited_s)}"], title=True)
    groups = sorted(group_by(result.ranks, _key), key=len)
    for same in groups[:DIFFERENT]:
        yield from _ranks(same)
    if len(groups) > DIFFERENT:
        rest = [r.rank for same in groups[DIFFERENT:] for r in same]
        yield Line(f"... and {len(groups) - DIFFERENT} more that differ: {compact_ranks(rest)}")
    notes = notes_of((r.rank, r.note) for r in result.ranks)
    if notes:
        yield Items(notes)
    if result.undo:
        yield Line([Span("undo: ", "strong"), result.undo])


def _state(result: Changed) -> str:
    states = {rank.state for rank in result.ranks}
    if states <= {"armed"}:
        return "armed: it takes effect at the next step" if states else "on no rank"
    where = f" on all {len(result.ranks)} ranks" if len(result.ranks) > 1 else ""
    if states == {"verified"}:
        return (
            f"in force{where} from the same step on, and seen there"
            if result.same_step
            else "in force, and seen at its first step"
        )
    return f"in force{where}" if states == {"in force"} else "not the same on all ranks"


def _key(rank: RankChange) -> Hashable:
    return repr((rank.state, rank.optimizer_step, list(rank.groups)))


def _ranks(same: Sequence[RankChange]) -> Iterator[Block]:
    who = compact_ranks([r.rank for r in same])
    yield Line(
        [Span(who, "strong"), ": ", Span(same[0].state, TONES.get(same[0].state, "plain")), f" {from_step(same)}"]
    )
    if same[0].groups:
        yield _table(same[0].groups, who)
    else:
        yield Line("nothing was in force there, so nothing has changed")


def _table(groups: Sequence[GroupChange], who: str) -> Table:
    settings = {g.setting for g in groups}
    caption = f"{plural(len(groups), 'value')} of {who}"
    columns = [Column("optimizer"), Column("group"), Column("setting")]
    columns += [Column("scheduled", right=True), Column("before", right=True), Column("after", right=True)]
    columns += [Column("action", wrap=True)]
    notes = any(g.note for g in groups)
    columns += [Column("note", wrap=True)] if notes else []
    clipping_only = settings == {"clip_norm"}

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

    return Table(caption, columns, [row(g) for g in groups], 20, "values")


def _short(value: float) -> str:
    return number(value, 4)


def _strong(span: Span) -> Span:
    return Span(span.text, "strong") if span.tone == "plain" else span
