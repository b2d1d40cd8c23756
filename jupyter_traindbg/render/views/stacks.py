"""`Stacks`: who is elsewhere than the others. One card per place, the odd one out first; helpers that idle are folded away at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...frames.whose import short_place
from ...language import counted, later_counted, pgettext, text
from ...model import Frame, NotAvailable, Stacks, Wait, WaitKind
from ...words.durations import duration
from ...words.ranks import compact_ranks, rank_list
from ...words.waits import at_moment, awaited, state_words
from ..blocks import PLACE, Answer, Block, Card, Fold, Frames, Inline, Line, Span, within
from ..grouping import Caller, StackGroup, caller, group_by, group_stacks

OPEN, FOLDED, IDLE = 8, 24, 12
"""How many different stacks are shown in full, then as one line each that unfolds; the same for idle helpers."""


def view(result: Stacks) -> Iterator[Block]:
    groups = group_stacks(result)
    who = caller({p.rank: p.worker for p in result.processes if p.worker})
    yield _answer(result, groups, who)
    busy = [g for g in groups if not g.idle]
    yield from (_card(g, who) for g in busy[:OPEN])
    stacks = later_counted(
        "... and {n} more different stack: see the result's to_dict()",
        "... and {n} more different stacks: see the result's to_dict()",
    )
    helpers = later_counted(
        "... and {n} more kind of helper: see the result's to_dict()",
        "... and {n} more kinds of helper: see the result's to_dict()",
    )
    yield from _folded(busy[OPEN:], who, FOLDED, stacks)
    idle = [g for g in groups if g.idle]
    if idle:
        yield Fold(_helpers(idle), list(_folded(idle, who, IDLE, helpers)))


# --- the answer -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Place:
    """Where the training threads of `ranks` are, and what they do there, in the words of the answer."""

    ranks: tuple[int, ...]
    who: str
    doing: str
    at: Frame | None
    tells: bool

    @property
    def whole(self) -> list[str | Span]:
        if self.at is None:
            return [self.doing or text("without a Python frame")]
        before = text(" at ") if self.doing else text("at ")
        return [self.doing, before, Span(short_place(self.at), "code", link=self.at)]

    @property
    def short(self) -> list[str | Span]:
        """The wait for one certain thing says enough by itself: ``the collective all_reduce``, but not ``a lock``."""
        return [self.doing] if self.tells else self.whole


def _answer(result: Stacks, groups: Sequence[StackGroup], who: Caller) -> Answer:
    ranks = sorted({p.rank for p in result.processes})
    children = sum(p.role != "rank" for p in result.processes)
    silent = len(result.silent)
    places = _places(groups, who)
    whole = not silent and {rank for place in places for rank in place.ranks} == set(ranks)
    words, told = _words(places, whole=whole) if places else (_no_place(ranks), not ranks)
    workers = counted("{n:,} worker", "{n:,} workers", len(ranks))
    about: list[Inline] = [] if told else [who(ranks) if who is compact_ranks else workers]
    if children:
        about.append(counted("with {n:,} child process", "with {n:,} child processes", children))
    if silent:
        about.append(Span(text("{silent} did not answer", silent=silent), "warn"))
    odd = len(places) > 1 and len(places[0].ranks) < len(places[-1].ranks)
    return Answer(
        words, [*about, duration(result.taken_s)], "warn" if silent or not places else "info" if odd else "plain"
    )


def _no_place(ranks: Sequence[int]) -> str:
    if not ranks:
        return text("no stack could be read")
    return text("which thread trains is not known")


def _places(groups: Sequence[StackGroup], who: Caller) -> list[_Place]:
    """The places of training threads, the one with the fewest ranks first. Stacks that differ in library code alone are at one place."""
    training = [g for g in groups if g.training and g.role == "rank"]
    places = [
        _Place(
            ranks=(ranks := tuple(sorted({rank for g in same for rank in g.ranks}))),
            who=who(ranks),
            doing=_busy_with(same[0]),
            at=same[0].where,
            tells=_tells(same[0].waiting_for),
        )
        for same in group_by(training, lambda g: (_busy_with(g), _at(g)))
    ]
    return sorted(places, key=lambda place: (len(place.ranks), place.ranks))


def _busy_with(group: StackGroup) -> str:
    """What it does, then in which part of a training, as the title of its card has them: ``computing, in a forward pass``."""
    doing = at_moment(group.state, group.waiting_for)
    return text(", ").join(filter(None, [doing, *(phase.words for phase in group.phases)]))


_CERTAIN: frozenset[WaitKind] = frozenset(
    ("backward", "collective", "future", "gil", "gpu", "init", "loader", "loader_end", "teardown", "terminal")
)


def _tells(wait: Wait | None) -> bool:
    """Whether it is a wait for one certain thing."""
    return wait is not None and (wait.kind in _CERTAIN or (wait.kind in ("file", "device") and bool(wait.on)))


def _at(group: StackGroup) -> str:
    return short_place(group.where) if group.where else ""


def _words(places: Sequence[_Place], *, whole: bool) -> tuple[Inline, bool]:
    """In a sentence, and whether it names all the ranks."""
    first, others = places[0], places[-1]
    many = len(others.ranks)
    if len(places) == 1:
        every = whole and many > 1
        return [
            text("all {many:,} ranks are ", many=many) if every else _are(first),
            *first.whole,
        ], not every
    n = len({rank for place in places for rank in place.ranks})
    alike = first.doing == others.doing
    one, rest = (first.whole, others.whole) if alike else (first.short, others.short)
    if len(first.ranks) < many and 2 * many > n:
        beside = n - len(first.ranks)
        most = text("the other {many:,}", many=many)
        if many < beside:
            most = text("{many:,} of the other {beside:,}", many=many, beside=beside)
        are = counted("{most} is ", "{most} are ", many, most=most)
        return [_are(first), text("elsewhere, "), *one, text("; "), are, *rest], False
    if len(places) == 2:
        return [_are(first), *one, text("; "), _are(others), *rest], True
    spread = text("{n:,} ranks are at {count:,} places", n=n, count=len(places))
    if len(places) == n:
        spread = text("{n:,} ranks are at {count:,} different places", n=n, count=len(places))
    return [spread, _mostly(places, n)], False


def _are(place: _Place) -> str:
    return counted("{who} is ", "{who} are ", len(place.ranks), who=place.who)


def _mostly(places: Sequence[_Place], n: int) -> str:
    """What most of those do who are at many places."""
    doing, same = max(
        ((same[0].doing, sum(len(place.ranks) for place in same)) for same in group_by(places, lambda p: p.doing)),
        key=lambda found: found[1],
    )
    if not doing or same == 1:
        return ""
    if same == n:
        return text(", all {doing}", doing=doing)
    return text(", {same:,} {doing}", same=same, doing=doing)


# --- the cards ------------------------------------------------------------------------------------------------------


def _helpers(idle: Sequence[StackGroup]) -> str:
    workers = sum(g.threads for g in idle if g.training)
    threads = sum(g.threads for g in idle) - workers
    helpers = [counted("{n:,} helper thread", "{n:,} helper threads", threads)] if threads else []
    helpers += [counted("{n:,} worker process", "{n:,} worker processes", workers)] if workers else []
    return text("{helpers} with nothing to do", helpers=pgettext("list", " and ").join(helpers))


def _folded(groups: Sequence[StackGroup], who: Caller, most: int, more: tuple[str, str]) -> Iterator[Block]:
    for group in groups[:most]:
        yield Fold([*_title(group, who), " · ", *_where(group)], list(_body(group)))
    if len(groups) > most:
        yield Line(Span(counted(*more, len(groups) - most), "muted"))


def _card(group: StackGroup, who: Caller) -> Card:
    return Card(
        _title(group, who),
        [Line([text("at "), *_where(group)]), *_body(group)],
        "strong",
        "●" if _blamed(group) else "○",
    )


def _blamed(group: StackGroup) -> bool:
    return group.training and group.role == "rank"


def _title(group: StackGroup, who: Caller) -> list[str | Span]:
    """Who, which thread, and what it does: ``ranks 0-6 (7) · training thread · waiting for the collective all_reduce``."""
    words: list[str | Span] = [Span(_who(group, who), "strong"), f" · {_thread(group)}"]
    words += [" · ", *_doing(group)]
    if group.phases:
        words += [" · ", text(", ").join(phase.words for phase in group.phases)]
    if group.holds_gil:
        words += [" · ", Span(text("holds the GIL"), "warn")]
    return words


def _who(group: StackGroup, who: Caller) -> str:
    ranks = who(group.ranks)
    if group.role == "rank":
        return ranks
    processes = len(group.pids)
    pids = text(" (pid {pids})", pids=rank_list(group.pids)) if processes <= 4 else ""
    if group.role == "child":
        words = later_counted("child process of {ranks}{pids}", "{n:,} child processes of {ranks}{pids}")
    else:
        words = later_counted("{role} of {ranks}{pids}", "{n:,} {role}s of {ranks}{pids}")
    return counted(*words, processes, role=group.role, ranks=ranks, pids=pids)


def _thread(group: StackGroup) -> str:
    name = group.name
    if group.training:
        kind = text("training thread") if group.role == "rank" else text("main thread")
        name = kind if name in ("MainThread", "") else f"{kind} {name}"
    else:
        name = text("thread {name}", name=name)
    more = group.threads > len(group.pids)
    return text("{n} of {thread}", n=group.threads, thread=name) if more else name


def _doing(group: StackGroup) -> list[str | Span]:
    state = group.state
    if (wait := group.waiting_for) is not None:
        if wait.kind == "sleep":
            return [Span(text("sleeping"), "strong")]
        if wait.kind == "idle":
            return [at_moment(state, wait)]
        return within(text("waiting for {wait}", wait=PLACE), Span(awaited(wait), "strong"))
    if isinstance(state, NotAvailable):
        return [Span(text("state not known"), "muted", why=state.reason)]
    return [state_words(state)]


def _where(group: StackGroup) -> list[str | Span]:
    frame = group.where
    if frame is None:
        return [Span(text("no Python frame"), "muted")]
    words: list[str | Span] = [Span(short_place(frame), "code", link=frame)]
    if frame.library:
        words.append(Span(text(" (library code only)"), "muted"))
    return words


def _body(group: StackGroup) -> Iterator[Block]:
    if group.source != "agent":
        words = text("from outside, by {source}", source=group.source)
        if group.note:
            words = text("from outside, by {source}: {note}", source=group.source, note=group.note)
        yield Line(Span(words, "muted"))
    elif group.note:
        yield Line(Span(group.note, "muted"))
    if group.frames:
        yield Frames(group.frames)
