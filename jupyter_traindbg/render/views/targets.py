"""`Targets`: what can be attached to on this host; what cannot, with the reason on a line of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...model import Target, Targets
from ..blocks import Block, Column, Inline, Items, Line, Span, Table
from ..common import DASH, measured, short_command
from ..grouping import compact_ranks, group_by, rank_list
from ..units import age, plural

SEPARATE = 8
"""The ranks of one launcher share a row where there are more than this and they differ only in rank and pid."""


def view(result: Targets) -> Iterator[Block]:
    if not result.targets:
        yield Line("no training process is running on this host", title=True)
        yield Line(["Start the job, or name a pid: ", Span("%attach PID", "code")])
        return
    yield Line(f"{plural(len(result.targets), 'target')} on this host", title=True)
    columns = [
        Column("target"),
        Column("kind", spare=True),
        Column("rank"),
        Column("framework", wrap=True, spare=True),
        Column("running"),
    ]
    columns += [Column("agent"), Column("command", wrap=True)]
    yield Table("What can be attached to", columns, [_row(same) for same in _collapsed(result.targets)], 40, "targets")
    yield from _refusals(result.targets)


def _collapsed(targets: Sequence[Target]) -> list[list[Target]]:
    out: list[list[Target]] = []
    for same in group_by(
        targets, lambda t: (t.part_of, t.kind, str(t.framework), t.agent, t.why_not, t.command, t.user)
    ):
        together = same[0].part_of is not None and len(same) > SEPARATE
        out += [same] if together else [[target] for target in same]
    order = {id(target): i for i, target in enumerate(targets)}
    return sorted(out, key=lambda same: order[id(same[0])])


def _row(same: Sequence[Target]) -> list[Inline]:
    target = same[0]
    name = target.name if len(same) == 1 else f"{target.name} ... {same[-1].name}"
    if target.part_of is not None:
        name = f"└ {name}"
    answers = Span("answers", "good") if target.agent else Span("none yet" if target.attachable else "no way in")
    if target.kind == "launcher" and target.attachable:
        answers = DASH  # its ranks do
    return [
        Span(name, "strong"),
        target.kind,
        _rank(same),
        measured(target.framework, str),
        age(max(t.running_s for t in same)),
        answers,
        short_command(target.command),
    ]


def _rank(same: Sequence[Target]) -> Inline:
    ranks = [t.rank for t in same if t.rank is not None]
    world = same[0].world_size
    if not ranks:
        return DASH if world is None else f"{world} ranks"
    return rank_list(ranks) + (f" of {world}" if world is not None else "")


def _refusals(targets: Sequence[Target]) -> Iterator[Block]:
    """Why not, once per reason: the same wall usually stands before many processes."""
    refused = [t for t in targets if t.why_not is not None]
    if not refused:
        return
    items: list[Inline] = []
    for same in group_by(refused, lambda t: (t.why_not or "").replace(str(t.pid), "PID")):
        ranks = [t.rank for t in same if t.rank is not None]
        names = ", ".join(t.name for t in same[:4])
        if len(same) > 4:
            names = compact_ranks(ranks) if len(ranks) == len(same) else f"{names}, ... ({len(same)})"
        items.append([Span(names, "strong"), f": {same[0].why_not}"])
    yield Items(items, Span("Cannot be attached to", "warn"))
