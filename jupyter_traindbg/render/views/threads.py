"""`Threads`: who uses the CPU, who waits for one, who for whose lock. Threads that do the same together, native ones folded away."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...frames.whose import short_place
from ...language import counted, later_counted, pgettext, text
from ...model import Maybe, NotAvailable, ProcessThreads, Threads, ThreadUse, available
from ...words.durations import duration
from ...words.waits import at_moment
from ..blocks import Answer, Block, Column, Fold, Inline, Items, Line, Span, Table
from ..common import DASH, notes_of
from ..grouping import Caller, caller, group_by
from ..notations import shares
from ..units import percent

BUSY = 0.005
"""A thread that uses less of a CPU does as good as nothing."""
STARVED = 0.1
"""From this share of the time on, the wait for a CPU is worth a word."""
SHOWN, SHOWN_NATIVE = 24, 12


def view(result: Threads) -> Iterator[Block]:
    who = caller({p.rank: p.worker for p in result.processes if p.worker})
    threads = [_Thread(process, thread) for process in result.processes for thread in process.threads]
    yield _answer(result, threads, who)
    groups = [_Group(same) for same in group_by(threads, lambda one: one.key)]
    if told := sorted((g for g in groups if g.busiest.tells), key=lambda g: (g.busiest.use.lock is None, -g.most)):
        yield _table(told, who)
    if rest := [g for g in groups if not g.busiest.tells]:
        yield _idle(rest, who)
    notes = notes_of((p.rank, note) for p in result.processes for note in (p.note, _no_locks(p)))
    if notes:
        yield Items(notes)


# --- threads that do the same --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Thread:
    """A thread and the process that it is in."""

    process: ProcessThreads
    use: ThreadUse

    @property
    def tells(self) -> bool:
        """Whether it is worth a row: it runs Python, computes, or is not simply asleep."""
        odd = available(self.use.state) and self.use.state not in ("running", "waiting", "idle")
        return self.use.python or odd or self.use.cpu_share >= BUSY

    @property
    def doing(self) -> str:
        return at_moment(self.use.state, self.use.waiting_for)

    @property
    def key(self) -> object:
        use, lock = self.use, self.use.lock
        at = short_place(use.where) if use.where else ""
        waits = (lock.name, lock.holder, lock.holder_where) if lock else ()
        name = re.sub(r"\d+", "N", use.name)
        doing = self.doing if use.python else ""  # native ones of a kind change between work and sleep
        return self.process.role, name, use.training, self.tells, doing, at, waits, use.holds


@dataclass(frozen=True)
class _Group:
    """Threads of one kind that do the same, on one rank or on many."""

    members: Sequence[_Thread]

    @property
    def busiest(self) -> _Thread:
        return max(self.members, key=lambda one: one.use.cpu_share)

    @property
    def ranks(self) -> list[int]:
        return [one.process.rank for one in self.members]

    @property
    def most(self) -> float:
        return self.busiest.use.cpu_share

    @property
    def name(self) -> str:
        names = {one.use.name for one in self.members}
        return names.pop() if len(names) == 1 else re.sub(r"\d+", "N", self.busiest.use.name)


# --- the answer ----------------------------------------------------------------------------------------------------


def _answer(result: Threads, threads: Sequence[_Thread], who: Caller) -> Answer:
    processes = counted("{n:,} process", "{n:,} processes", len(result.processes))
    many = counted("{n:,} thread in {processes}", "{n:,} threads in {processes}", len(threads), processes=processes)
    watched = text("watched for {window_s}", window_s=duration(result.window_s))
    about: list[Inline] = [many, watched]
    if result.silent:
        silent = len(result.silent)
        about.append(Span(text("{silent} did not answer", silent=silent), "warn"))
    about.append(duration(result.taken_s))
    if result.findings:
        return Answer(result.findings[0].title, about, "bad")
    training = [one for one in threads if one.use.training and one.process.role == "rank"]
    starved = [one for one in training if _share(one.use.starved_share) >= STARVED]
    if starved:
        about.append(text("others have it, or the container's limit"))
        return Answer(_starving(starved, who), about, "warn")
    if not threads:
        return Answer(text("no thread could be looked at"), about, "warn")
    return Answer(_busiest(training or threads, who), about, "warn" if result.silent else "plain")


def _starving(starved: Sequence[_Thread], who: Caller) -> Inline:
    ranks = [one.process.rank for one in starved]
    worst = max(_share(one.use.starved_share) for one in starved)
    many = len(set(ranks)) > 1
    if many:
        return text(
            "the training threads of {who} wait for a CPU up to {share} of the time",
            who=who(ranks),
            share=percent(worst),
        )
    return text(
        "the training thread of {who} waits for a CPU {share} of the time", who=who(ranks), share=percent(worst)
    )


def _busiest(threads: Sequence[_Thread], who: Caller) -> Inline:
    shares_ = [one.use.cpu_share for one in threads]
    one = max(threads, key=lambda one: one.use.cpu_share)
    ranks = sorted({one.process.rank for one in threads})
    told = _range(shares_)
    words = later_counted(
        "the training thread of {who} uses {told} of a CPU", "the training threads of {who} use {told} of a CPU each"
    )
    said = counted(*words, len(threads), who=who(ranks), told=told)
    if not one.use.training:
        words = later_counted("{name} of {who} uses {told} of a CPU", "{name} of {who} uses {told} of a CPU each")
        said = counted(*words, len(threads), name=one.use.name, who=who([one.process.rank]), told=told)
    at: list[str | Span] = []
    if len(threads) == 1 and one.use.where is not None:
        at = [text(", at "), Span(short_place(one.use.where), "code", link=one.use.where)]
    return [said, *at]


# --- the rest ------------------------------------------------------------------------------------------------------


def _table(groups: Sequence[_Group], who: Caller) -> Table:
    columns = [
        Column(text("who")),
        Column(text("thread")),
        Column("CPU", right=True),
        Column(text("waits for a CPU"), right=True, notation=shares, spare=True),
        Column(text("does"), wrap=True),
        Column(text("where"), wrap=True),
        Column(text("lock"), wrap=True),
    ]
    rows = [_row(group, who) for group in groups]
    if all(row[-1] is DASH for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    caption = text("threads that run Python, and whoever else uses a CPU")
    return Table(caption, columns, rows, SHOWN, pgettext("more", "kinds of thread"))


def _row(group: _Group, who: Caller) -> list[Inline]:
    one, use = group.busiest, group.busiest.use
    role = "" if one.process.role == "rank" else f" · {one.process.role}"
    times = f" x {len(group.members)}" if len(group.members) > len(set(group.ranks)) else ""
    training = text(" · trains") if use.training and one.process.role == "rank" else ""
    starved = max((_share(member.use.starved_share) for member in group.members), default=0.0)
    return [
        f"{who(group.ranks)}{role}",
        f"{group.name}{times}{training}",
        Span(_range([member.use.cpu_share for member in group.members]), value=group.most),
        Span(percent(starved), "warn" if starved >= STARVED and use.training else "plain", value=starved),
        one.doing or DASH,
        _place(use),
        _lock(use),
    ]


def _place(use: ThreadUse) -> Inline:
    if use.where is not None:
        return Span(short_place(use.where), "code", link=use.where)
    return DASH if use.python else text("native code")


def _lock(use: ThreadUse) -> Inline:
    lock = use.lock
    words = [text("holds {holds}", holds=", ".join(use.holds))] if use.holds else []
    if lock is not None:
        held = text(", held by {holder}", holder=lock.holder) if lock.holder else ""
        words.insert(0, text("waits for {name}{held}", name=lock.name, held=held))
    return text("; ").join(words) or DASH


def _idle(groups: Sequence[_Group], who: Caller) -> Fold:
    many = sum(len(group.members) for group in groups)
    lines: list[Block] = [
        Line([Span(group.name, "code"), f" x {len(group.members)} · {who(group.ranks)}"])
        for group in sorted(groups, key=lambda group: -len(group.members))[:SHOWN_NATIVE]
    ]
    if len(groups) > SHOWN_NATIVE:
        more = text("... and {n} more kinds: see the result's to_dict()", n=len(groups) - SHOWN_NATIVE)
        lines.append(Line(Span(more, "muted")))
    return Fold(counted("{n:,} native thread asleep", "{n:,} native threads asleep", many), lines)


def _no_locks(process: ProcessThreads) -> str:
    if process.role != "rank" or not isinstance(process.locks, NotAvailable):
        return ""
    return text("its locks are not known: {reason}", reason=process.locks.reason)


def _range(shares_: Sequence[float]) -> str:
    """``42 %``, ``12-58 %``."""
    least, most = percent(min(shares_)), percent(max(shares_))
    return most if least == most else f"{least.removesuffix(' %')}-{most}"


def _share(share: Maybe[float]) -> float:
    return 0.0 if isinstance(share, NotAvailable) else share
