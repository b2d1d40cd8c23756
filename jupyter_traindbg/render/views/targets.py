"""`Targets`: which jobs can be attached to and with which command; then each with its processes; why not, where one cannot."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ...language import counted, pgettext, text
from ...model import Target, Targets, names_to_type
from ...words.durations import age
from ...words.ranks import compact_ranks, rank_list
from ..blocks import Answer, Block, Column, Inline, Items, Line, Span, Table
from ..common import DASH, measured
from ..grouping import group_by, hosts_of
from ..short_commands import same_program, short_command, short_path

SEPARATE = 8
"""The ranks of one launcher share a row where there are more than this and they differ only in rank and pid."""
NAMED = 4
"""So many jobs are named in a line."""
SHOWN = 40
LONGEST_RANKS = 12
"""Characters for the numbers of ranks that share a row; where they take more, the ranks are counted."""


def view(result: Targets) -> Iterator[Block]:
    names = names_to_type(result.targets)
    yield from _answer(result, names)
    if not result.targets:
        return
    columns = [
        Column(text("target")),
        Column("rank", spare=True),
        Column("pid", right=True, spare=True),
        Column(text("framework"), spare=True),
        Column(pgettext("for how long", "running")),
        Column("agent"),
        Column(text("runs"), below=True),
    ]
    rows = [_row(same, runs, names) for same, runs in _collapsed(result.targets)]
    nested = any(target.part_of is not None for target in result.targets)
    where = text("On {hosts}", hosts=hosts_of(result.hosts)) if result.hosts else text("On this host")
    yield Table(where, columns, rows, SHOWN, pgettext("more", "targets"), nested)
    yield from _refusals(result.targets, names)


# --- the answer -----------------------------------------------------------------------------------------------------


def _answer(result: Targets, names: Mapping[str, str]) -> Iterator[Block]:
    """Which jobs there are to attach to, which not, and what to do now."""
    targets = result.targets
    where = hosts_of(result.hosts) or text("this host")
    whole = [t for t in targets if t.part_of is None]
    jobs = [t for t in whole if t.attachable and _may_train(t)]
    closed = [t for t in whole if not t.attachable]
    idle = [t for t in whole if t.attachable and not _may_train(t)]
    words: list[str | Span] = []
    if jobs:
        words += [counted("{n:,} job can be attached to: ", "{n:,} jobs can be attached to: ", len(jobs))]
        words += _named(jobs, targets, names)
    elif closed:
        words += [text("no training job on {where} can be attached to", where=where)]
    else:
        words += [text("no training process is running on {where}", where=where)]
    if closed:
        words += [text("; {count} cannot: ", count=len(closed)), *_named(closed, targets, names)]
    if idle:
        trains = counted("; {n:,} kernel trains nothing: ", "; {n:,} kernels train nothing: ", len(idle))
        words += [trains, *_named(idle, targets, names)]
    yield Answer(words, tone="warn" if closed and not jobs else "plain")
    yield Line(_next_step(jobs, closed, names))


def _may_train(target: Target) -> bool:
    """A kernel that has loaded no deep learning library does not."""
    return target.kind != "kernel" or bool(target.framework) or target.agent


def _named(some: Sequence[Target], targets: Sequence[Target], names: Mapping[str, str]) -> Iterator[str | Span]:
    for n, target in enumerate(some[:NAMED]):
        yield from ([pgettext("list", ", ")] if n else [])
        yield _name(target, names)
        yield _size(target, targets)
    if len(some) > NAMED:
        more = len(some) - NAMED
        yield text(" and {more} more", more=more)


def _size(target: Target, targets: Sequence[Target]) -> str:
    if target.kind != "launcher":
        return ""
    members = sum(t.part_of == target.name for t in targets)
    if target.world_size is None:
        return counted(" ({n:,} process)", " ({n:,} processes)", members) if members else ""
    if target.world_size == members:
        return counted(" ({n:,} rank)", " ({n:,} ranks)", members)
    return text(" ({members} of {world_size} ranks)", members=members, world_size=target.world_size)


def _next_step(jobs: Sequence[Target], closed: Sequence[Target], names: Mapping[str, str]) -> str:
    if jobs:
        return text("next: ") + f"`%attach {names[jobs[0].name]}`"
    if closed:
        command = f"`%attach {names[closed[0].name]}`"
        return text("{command} says what would let you in", command=command)
    return text("Start the job, or name a pid: `%attach PID`")


# --- the table ------------------------------------------------------------------------------------------------------


def _collapsed(targets: Sequence[Target]) -> list[tuple[list[Target], Span]]:
    """What shares a row, and what it runs."""
    by_name = {t.name: t for t in targets}
    runs = {id(t): _runs(t, by_name.get(t.part_of or "")) for t in targets}
    out: list[list[Target]] = []
    for same in group_by(
        targets, lambda t: (t.part_of, t.kind, str(t.framework), t.agent, _why_not(t), runs[id(t)], t.user)
    ):
        together = same[0].part_of is not None and len(same) > SEPARATE
        out += [same] if together else [[target] for target in same]
    order = {id(target): i for i, target in enumerate(targets)}
    return [(same, runs[id(same[0])]) for same in sorted(out, key=lambda same: order[id(same[0])])]


def _runs(target: Target, launcher: Target | None) -> Span:
    """The notebook of a kernel; else the command, unless it says no more than that of the `launcher`."""
    if target.notebook is not None:
        return Span(target.notebook, "code", hover=target.command, fit=short_path)
    if launcher is not None and same_program(target.command, launcher.command):
        return Span("")
    return Span(target.command, "code", fit=short_command)


def _row(same: Sequence[Target], runs: Span, names: Mapping[str, str]) -> list[Inline]:
    target = same[0]
    name: list[str | Span] = [_name(target, names)]
    if len(same) > 1:
        name += [" … ", _name(same[-1], names)]
    rank, rest = _rank(same)
    return [
        name if target.part_of is None else ["└ ", *name],
        rank,
        str(target.pid) if len(same) == 1 else DASH,
        measured(target.framework, str),
        measured(max(t.running_s for t in same), age),
        _agent(target),
        [rest, runs] if rest else runs,
    ]


def _name(target: Target, names: Mapping[str, str]) -> Span:
    """What one can type; the whole of it on hover."""
    name = names[target.name]
    return Span(name, "code", hover=target.name if name != target.name else "")


def _rank(same: Sequence[Target]) -> tuple[Inline, str]:
    """The rank, or how many there are; and which ones these are, where it takes too many words for a column."""
    ranks, world = [t.rank for t in same if t.rank is not None], same[0].world_size
    if not ranks:
        return (DASH if world is None else counted("{n:,} rank", "{n:,} ranks", world)), ""
    numbers = rank_list(ranks)
    shown, rest = (numbers, "") if len(numbers) <= LONGEST_RANKS else (str(len(ranks)), f"{compact_ranks(ranks)} ")
    return (shown if world is None else text("{shown} of {world}", shown=shown, world=world)), rest


def _agent(target: Target) -> Inline:
    if not target.attachable:
        return Span(text("no way in"), "warn", hover=target.why_not or "")
    if target.kind == "launcher":
        return DASH  # its ranks have one each
    return Span(text("answers"), "good") if target.agent else text("none yet")


# --- what cannot be entered -----------------------------------------------------------------------------------------


def _refusals(targets: Sequence[Target], names: Mapping[str, str]) -> Iterator[Block]:
    """Why not, once per reason: the same wall usually stands before many processes."""
    refused = [t for t in targets if t.why_not is not None]
    if not refused:
        return
    items: list[Inline] = []
    for same in group_by(refused, _why_not):
        ranks = [t.rank for t in same if t.rank is not None]
        comma = pgettext("list", ", ")
        named = comma.join(names[t.name] for t in same[:NAMED])
        if len(same) > NAMED:
            named = compact_ranks(ranks) if len(ranks) == len(same) else f"{named}{comma}… ({len(same)})"
        why = same[0].why_not or "" if len(same) == 1 else _why_not(same[0])
        items.append([Span(named, "strong"), text(": "), why])
    yield Items(items, Span(text("Cannot be attached to"), "warn"))


def _why_not(target: Target) -> str:
    """The reason, in the same words for all processes that it is true of."""
    return re.sub(rf"\b{target.pid}\b", "PID", target.why_not or "")
