"""`Slow`: what makes the job slow and what mending that saves; where a step of each rank goes; what was looked at."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import compress

from ...frames.whose import short_place
from ...language import counted, pgettext, text
from ...model import Slow, SlowCause, SlowLine, SlowRank
from ...words.durations import duration
from ..blocks import Answer, Bar, Block, Column, Fold, Inline, Items, Line, Part, Span, Table
from ..common import DASH
from ..grouping import Caller, caller
from ..notations import durations, shares
from ..units import percent

SHOWN, LINES_SHOWN = 24, 12
BARS = 4
"""Of so many ranks a bar each says where a step goes; of more, that of one that is blamed and of one that is not."""
LEAST_SHARE = 0.005


def view(result: Slow) -> Iterator[Block]:
    who = caller({rank.rank: rank.worker for rank in result.ranks if rank.worker})
    stepping = [rank for rank in result.ranks if rank.step_s]
    yield _answer(result, stepping, who)
    if not stepping:
        yield Line(text("`%diagnose` tells which; `%slow --seconds 120` watches for longer"))
    if len(result.causes) > 1:
        yield _savings(result.causes)
    barred = stepping if len(stepping) <= BARS else _telling(stepping, _blamed(result))
    yield from _bars(barred, who)
    if stepping:
        yield _table(stepping, who, _blamed(result))
    still = [rank for rank in result.ranks if not rank.step_s]
    if still:
        yield _standing(still, who)
    lines = [(rank, line) for rank in barred for line in rank.lines]
    if lines:
        yield Fold(text("the lines at which the training threads spend most"), [_lines(lines, who)])
    if result.looked_at:
        yield Fold(text("what was looked at"), [Items(list(result.looked_at))], needed=not result.causes)


def _telling(stepping: Sequence[SlowRank], blamed: frozenset[int]) -> list[SlowRank]:
    """Of many the slowest one, and the first that is blamed, beside one that is not."""
    slowest = max(stepping, key=lambda rank: rank.step_s or 0.0)
    first = next((rank for rank in stepping if rank.rank in blamed), slowest)
    other = next((rank for rank in stepping if rank.rank not in blamed), slowest)
    return list({rank.rank: rank for rank in (first, other)}.values())


# --- the answer ----------------------------------------------------------------------------------------------------


def _answer(result: Slow, stepping: Sequence[SlowRank], who: Caller) -> Answer:
    about: list[Inline] = []
    if stepping:
        steps = max(rank.steps for rank in stepping)
        about.append(counted("{n:,} step watched", "{n:,} steps watched", steps))
    about.append(text("over {window_s}", window_s=duration(result.window_s)))
    if result.silent:
        about.append(Span(text("{silent} did not answer", silent=len(result.silent)), "warn"))
    if not stepping:
        said = text("no step came in {window_s}: it hangs, or a step takes longer", window_s=duration(result.window_s))
        return Answer(said, about, "warn")
    if result.causes:
        first = result.causes[0]
        said = text(
            "{title}; mending it saves {share:.0%} of a step", title=first.finding.title, share=first.saves_share
        )
        return Answer(said, about, "warn")
    slowest = max(stepping, key=lambda rank: rank.step_s or 0.0)
    said = text(
        "nothing slows it down that could be mended: a step takes {step_s}", step_s=duration(slowest.step_s or 0.0)
    )
    most = max(_parts(slowest), key=lambda part: part.share)
    mostly = text("{share} of it {part}", share=percent(most.share), part=most.name)
    return Answer(text(", ").join([said, mostly]), about, "good")


def _blamed(result: Slow) -> frozenset[int]:
    return frozenset(rank for finding in result.findings[:1] for rank in finding.ranks)


def _savings(causes: Sequence[SlowCause]) -> Table:
    columns = [
        Column(text("to mend"), wrap=True),
        Column(text("where"), wrap=True),
        Column(text("saves of a step"), right=True),
    ]
    rows: list[list[Inline]] = [
        [
            cause.finding.title,
            Span(cause.finding.where, "code") if cause.finding.where else DASH,
            Span(
                f"{duration(cause.saves_s)} ({percent(cause.saves_share)})",
                value=cause.saves_s,
            ),
        ]
        for cause in causes
    ]
    return Table(text("what to mend, by what it saves"), columns, rows)


# --- where steps go ------------------------------------------------------------------------------------------------


def _of(rank: SlowRank) -> list[tuple[str, float | None]]:
    return [
        (text("data"), rank.data_s),
        (text("forward"), rank.forward_s),
        (text("backward"), rank.backward_s),
        (text("optimizer"), rank.optimizer_s),
        (text("the rest"), rank.rest_s),
        (text("other ranks"), rank.communication_s),
    ]


def _parts(rank: SlowRank) -> list[Part]:
    """All of `_of`; of length 0 where that is not known."""
    return [_part(name, s, rank.step_s or 1.0) for name, s in _of(rank)]


def _part(name: str, seconds: float | None, step_s: float) -> Part:
    share = math.nan if seconds is None else seconds / step_s
    if seconds is None or not math.isfinite(share):
        return Part(name, 0.0, text("not known"))
    return Part(name, share, f"{duration(seconds)} ({percent(share)})")


def _bars(ranks: Sequence[SlowRank], who: Caller) -> Iterator[Bar]:
    """All of the same parts, so that a part has the same colour in each."""
    parts = [_parts(rank) for rank in ranks]
    matters = [any(part.share >= LEAST_SHARE for part in same) for same in zip(*parts, strict=True)]
    for rank, its in zip(ranks, parts, strict=True):
        yield Bar(text("where a step of {who} goes", who=who([rank.rank])), list(compress(its, matters)))


def _table(ranks: Sequence[SlowRank], who: Caller, blamed: frozenset[int]) -> Table:
    names = [name for name, _ in _of(ranks[0])]
    columns = [
        Column(text("who")),
        Column(text("a step"), right=True, notation=durations),
        *(Column(name, right=True, notation=durations) for name in names),
        Column(text("most at"), wrap=True, spare=True),
    ]
    first = sorted(ranks, key=lambda rank: (rank.rank not in blamed, rank.rank))
    rows = [_row(rank, who, rank.rank in blamed) for rank in first]
    caption = text("where an average step goes, by rank")
    return Table(caption, columns, rows, SHOWN, pgettext("more", "ranks"))


def _row(rank: SlowRank, who: Caller, blamed: bool) -> list[Inline]:
    cells: list[Inline] = [DASH if s is None else Span(duration(s), value=s) for _, s in _of(rank)]
    return [
        Span(who([rank.rank]), "strong" if blamed else "plain"),
        Span(duration(rank.step_s or 0.0), value=rank.step_s),
        *cells,
        _place(rank.lines[0]) if rank.lines else DASH,
    ]


def _place(line: SlowLine) -> Inline:
    return Span(short_place(line.frame), "code", link=line.frame)


def _lines(lines: Sequence[tuple[SlowRank, SlowLine]], who: Caller) -> Table:
    columns = [
        Column(text("who")),
        Column(text("where"), wrap=True),
        Column(text("in")),
        Column(text("of a step"), right=True, notation=durations),
        Column(text("CPU idle"), right=True, notation=shares, spare=True),
    ]
    rows: list[list[Inline]] = [
        [
            who([rank.rank]),
            _place(line),
            _part_name(line.part),
            Span(duration(line.seconds), value=line.seconds),
            DASH if line.idle_share is None else Span(percent(line.idle_share), value=line.idle_share),
        ]
        for rank, line in lines
    ]
    return Table("", columns, rows, LINES_SHOWN, pgettext("more", "lines"))


def _part_name(part: str) -> str:
    names = ("data", "forward", "backward", "optimizer", "communication", "rest")
    said = (text("data"), text("forward"), text("backward"), text("optimizer"), text("other ranks"), text("the rest"))
    return dict(zip(names, said, strict=True)).get(part, part)


def _standing(ranks: Sequence[SlowRank], who: Caller) -> Line:
    at = next((rank.lines[0] for rank in ranks if rank.lines), None)
    said: list[str | Span] = [text("{who}: no whole step was seen", who=who([rank.rank for rank in ranks]))]
    if at is not None:
        said += [text(", mostly at "), Span(short_place(at.frame), "code", link=at.frame)]
    return Line(said)
