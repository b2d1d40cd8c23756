"""`Stacks`: where everybody is. One card per place, the odd one out first; helpers that idle are folded away at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...frames.whose import short_place
from ...model import NotAvailable, Stacks
from ..blocks import Block, Card, Fold, Frames, Line, Span
from ..grouping import StackGroup, compact_ranks, group_stacks, rank_list
from ..units import duration, plural

OPEN, FOLDED, IDLE = 8, 24, 12
"""How many different stacks are shown in full, then as one line each that unfolds; the same for idle helpers."""


def view(result: Stacks) -> Iterator[Block]:
    if not result.processes:
        yield Line("no stacks", title=True)
        return
    ranks = sorted({p.rank for p in result.processes})
    children = sum(p.role != "rank" for p in result.processes)
    groups = group_stacks(result)
    busy = [g for g in groups if not g.idle]
    title = f"stacks of {compact_ranks(ranks)}"
    if children:
        title += f" and {plural(children, 'child process', 'child processes')}"
    yield Line(f"{title} · {duration(result.taken_s)}", title=True)
    yield from (_card(g) for g in busy[:OPEN])
    yield from _folded(busy[OPEN:], FOLDED, "different stacks")
    idle = [g for g in groups if g.idle]
    if idle:
        yield Fold(f"{_helpers(idle)} with nothing to do", list(_folded(idle, IDLE, "kinds of helper")))


def _helpers(idle: Sequence[StackGroup]) -> str:
    workers = sum(g.threads for g in idle if g.training)
    threads = sum(g.threads for g in idle) - workers
    counted = [plural(threads, "helper thread")] if threads else []
    return " and ".join(counted + ([plural(workers, "worker process", "worker processes")] if workers else []))


def _folded(groups: Sequence[StackGroup], most: int, noun: str) -> Iterator[Block]:
    for group in groups[:most]:
        yield Fold([*_title(group), " · ", *_where(group)], list(_body(group)))
    if len(groups) > most:
        yield Line(Span(f"... and {len(groups) - most} more {noun}: see the result's to_dict()", "muted"))


def _card(group: StackGroup) -> Card:
    return Card(
        _title(group),
        [Line(["at ", *_where(group)]), *_body(group)],
        "strong",
        "●" if _blamed(group) else "○",
    )


def _blamed(group: StackGroup) -> bool:
    return group.training and group.role == "rank"


def _title(group: StackGroup) -> list[str | Span]:
    """Who, which thread, and what it does: ``ranks 0-6 (7) · training thread · waiting for the collective all_reduce``."""
    words: list[str | Span] = [Span(_who(group), "strong"), f" · {_thread(group)}"]
    words += [" · ", *_doing(group)]
    if group.phases:
        words += [" · ", ", ".join(phase.en for phase in group.phases)]
    if group.holds_gil:
        words += [" · ", Span("holds the GIL", "warn")]
    return words


def _who(group: StackGroup) -> str:
    ranks = compact_ranks(group.ranks)
    if group.role == "rank":
        return ranks
    processes = len(group.pids)
    one, many = {"child": ("child process", "child processes")}.get(group.role, (group.role, f"{group.role}s"))
    pids = f" (pid {rank_list(group.pids)})" if processes <= 4 else ""
    return f"{one if processes == 1 else plural(processes, one, many)} of {ranks}{pids}"


def _thread(group: StackGroup) -> str:
    name = group.name
    if group.training:
        kind = "training thread" if group.role == "rank" else "main thread"
        name = kind if name in ("MainThread", "") else f"{kind} {name}"
    else:
        name = f"thread {name}"
    more = group.threads > len(group.pids)
    return f"{group.threads} of {name}" if more else name


def _doing(group: StackGroup) -> list[str | Span]:
    state = group.state
    if group.waiting_for is not None:
        words = group.waiting_for
        if words == "sleep":
            return [Span("sleeping", "strong")]
        return [words] if words.startswith("idle") else ["waiting for ", Span(words, "strong")]
    if isinstance(state, NotAvailable):
        return [Span("state not known", "muted", why=state.reason)]
    return [state]


def _where(group: StackGroup) -> list[str | Span]:
    frame = group.where
    if frame is None:
        return [Span("no Python frame", "muted")]
    words: list[str | Span] = [Span(short_place(frame), "code")]
    if frame.library:
        words.append(Span(" (library code only)", "muted"))
    return words


def _body(group: StackGroup) -> Iterator[Block]:
    if group.source != "agent":
        note = f": {group.note}" if group.note else ""
        yield Line(Span(f"from outside, by {group.source}{note}", "muted"))
    elif group.note:
        yield Line(Span(group.note, "muted"))
    if group.frames:
        yield Frames(group.frames)
