"""`Profile`: where a step of the slowest rank goes, by operator, line and call; what profiling it cost; the other ranks beside it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...frames.whose import short_place
from ...language import counted, pgettext, text
from ...model import Frame, NotAvailable, Profile, ProfiledLine, RankProfile
from ...words.durations import duration
from ..blocks import (
    PLACE,
    PLACE_2,
    Answer,
    Bar,
    Block,
    Column,
    Fold,
    Inline,
    Items,
    Line,
    Part,
    Span,
    Table,
    Tone,
    within,
)
from ..call_rows import call_table
from ..common import DASH, finite, measured, notes_of
from ..grouping import Caller, caller
from ..notations import counts, durations, shares
from ..operator_rows import foremost, kernel_table, operator_table, shortened
from ..profile_ranks import SLOWER, Told, busiest, pace_s, told_of
from ..units import count, percent

SHOWN, LINES_SHOWN = 24, 10
NAMED, NAME, OPERATOR = 3, 48, 44
"""Operators that have a part of their own in the bar; characters of a name in a sentence, and beside a line."""
IDLE = 0.8
"""A GPU that is busy for a smaller share of a step waits for the host: what Python takes is worth a word."""
LEAST_SHARE = 0.005
PERFETTO = "https://ui.perfetto.dev"


def view(result: Profile) -> Iterator[Block]:
    who = caller({rank.rank: rank.worker for rank in result.ranks if rank.worker})
    told = told_of(result.ranks)
    yield _answer(result, told, who)
    if told is None:
        yield Line(text("`%diagnose` tells what the ranks do; `%profile --seconds 120` watches for longer"))
    if isinstance(result.trace, NotAvailable):
        yield Line(Span(text("no trace was written: {why}", why=result.trace.reason), "warn"))
    yield from _cost(result)
    notes = notes_of((rank.rank, rank.note) for rank in result.ranks)
    if notes:
        yield Items(notes)
    if told is not None:
        yield from _of_rank(result.ranks, told, who)
        yield from _what_next(result)


def _of_rank(ranks: Sequence[RankProfile], told: Told, who: Caller) -> Iterator[Block]:
    name = who([told.rank.rank])
    yield from _bar(told.rank, name)
    if len(ranks) > 1:
        yield _rank_table(ranks, told, who)
    for table in (operator_table, kernel_table):
        yield from table(told.rank, ranks, who)
    if told.rank.lines:
        yield _lines(told.rank, name)
    calls = call_table(told.rank)
    if calls is not None:
        yield Fold(text("the calls of {who} in which these lines were seen", who=name), [calls])


# --- the answer ------------------------------------------------------------------------------------------------------


def _answer(result: Profile, told: Told | None, who: Caller) -> Answer:
    about: list[Inline] = []
    steps = max((rank.steps for rank in result.ranks), default=0)
    if steps:
        about.append(counted("{n:,} step recorded", "{n:,} steps recorded", steps))
    if windows := [s for s in finite(rank.window_s for rank in result.ranks) if s > 0]:
        about.append(text("watched for {window_s}", window_s=duration(max(windows))))
    if result.silent:
        about.append(Span(text("{silent} did not answer", silent=len(result.silent)), "warn"))
    if told is None:
        said = text("nothing was seen of {who}", who=who([rank.rank for rank in result.ranks]))
        return Answer(said if result.ranks else text("no rank was profiled"), about, "warn")
    tone: Tone = "warn" if told.slower or told.waited_s else "plain"
    if not told.rank.steps or pace_s(told.rank) is None:
        return Answer(_mostly_at(told, who), about, tone)
    return Answer(_where_it_goes(_how_long(result, told, who), told.rank), about, tone)


def _mostly_at(told: Told, who: Caller) -> Inline:
    """Where no step was recorded."""
    seen = busiest(told.rank)
    name = who([told.rank.rank])
    if seen is None:
        return text("{who} was looked at, and no Python frame was seen", who=name)
    place = Span(short_place(seen[0]), "code", link=seen[0])
    said = text("{who} was most often at {place} ({share} of the time)", who=name, place=PLACE, share=percent(seen[1]))
    if seen[1] > 0.5:
        said = text("{who} was most of the time at {place} ({share})", who=name, place=PLACE, share=percent(seen[1]))
    return within(said, place)


def _how_long(result: Profile, told: Told, who: Caller) -> str:
    """A step, beside those of other ranks."""
    step_s, name = duration(pace_s(told.rank) or 0.0), who([told.rank.rank])
    ranks = sum(bool(rank.steps) for rank in result.ranks)
    if told.waited_s and told.middle is not None:
        return text(
            "all wait for {who}: of a step, {step_s}, {other} spends {waited_s} more in collective calls; on {who}",
            who=name,
            step_s=step_s,
            other=who([told.middle.rank]),
            waited_s=duration(told.waited_s),
        )
    if told.slower and told.middle is not None:
        times = f"{told.times:.2g}"
        if ranks == 2:
            other = who([told.middle.rank])
            return text(
                "a step of {who} takes {step_s}, {times} x as long as on {other}",
                who=name,
                step_s=step_s,
                times=times,
                other=other,
            )
        return text(
            "a step of {who} takes {step_s}, {times} x as long as on the middle one of {ranks:,} ranks",
            who=name,
            step_s=step_s,
            times=times,
            ranks=ranks,
        )
    if ranks > 1:
        return counted(
            "a step of {who} takes {step_s}, as on the other one",
            "a step of {who} takes {step_s}, as on the {n:,} others",
            ranks - 1,
            who=name,
            step_s=step_s,
        )
    return text("a step of {who} takes {step_s}", who=name, step_s=step_s)


def _where_it_goes(step: str, rank: RankProfile) -> str:
    first = foremost(rank)
    most = ""
    if first is not None:
        name, share = shortened(first[0].name, NAME), percent(first[1])
        most = text(", most in {name} ({share})", name=name, share=share)
    busy, python, operators = (_of_step(rank, s) for s in (rank.gpu_busy_s, rank.python_s, rank.operators_s))
    if busy is not None:
        said = text("{step}: the GPU is busy for {busy} of it{most}", step=step, busy=percent(busy), most=most)
        if python is None or busy > IDLE:
            return said
        return text("{said}; {python} is Python between operators", said=said, python=percent(python))
    if operators is None or python is None:
        return step + most
    waiting = _of_step(rank, rank.collectives_s)
    if waiting is not None and waiting >= LEAST_SHARE:
        return text(
            "{step}: {operators} in operators{most}, {waiting} in collective calls, {python} in Python between them",
            step=step,
            operators=percent(operators),
            most=most,
            waiting=percent(waiting),
            python=percent(python),
        )
    return text(
        "{step}: {operators} in operators{most}, {python} in Python between them",
        step=step,
        operators=percent(operators),
        most=most,
        python=percent(python),
    )


def _of_step(rank: RankProfile, seconds: float | None) -> float | None:
    """Its share of a recorded step, where both are known."""
    if seconds is None or not rank.step_s or not math.isfinite(seconds / rank.step_s):
        return None
    return seconds / rank.step_s


# --- what it cost ----------------------------------------------------------------------------------------------------


def _cost(result: Profile) -> Iterator[Line]:
    """Once, for the rank on which it was greatest."""
    if not result.recorded:
        return
    times = max(finite(rank.overhead for rank in result.ranks), default=None)
    still_s = max(finite(rank.stood_still_s for rank in result.ranks), default=0.0)
    still = duration(still_s)
    if times is None:
        said = text("what it cost: the training stood still for {still}; the profiler is out again", still=still)
    elif times < SLOWER:
        said = text(
            "what it cost: recorded steps took no longer than usual, and the training stood still for {still}; the profiler is out again",
            still=still,
        )
    else:
        said = text(
            "what it cost: recorded steps took {times:.2f} x as long as usual, and the training stood still for {still}; "
            "the profiler is out again",
            times=times,
            still=still,
        )
    yield Line(Span(said, "muted"))


def _what_next(result: Profile) -> Iterator[Line]:
    if isinstance(result.trace, str):
        said = text("the trace of all ranks is in {file}: open it at {page}", file=PLACE, page=PLACE_2)
        yield Line(within(said, Span(result.trace, "code", link=Path(result.trace)), Span(PERFETTO, link=PERFETTO)))
    elif result.recorded and result.trace is None:
        yield Line(text("`%profile --trace run.json.gz` writes what the ranks recorded, for Perfetto"))
    if any(rank.stacks for rank in result.ranks):
        yield Line(text("`%plot profile TARGET` draws the calls as a flame graph"))


# --- where a step goes -----------------------------------------------------------------------------------------------


def _bar(rank: RankProfile, name: str) -> Iterator[Bar]:
    """The operators that take most, all others, and Python; on the host, where there is a GPU."""
    operators, python = _of_step(rank, rank.operators_s), _of_step(rank, rank.python_s)
    if operators is None or python is None or not rank.step_s:
        return
    own = [one for one in rank.operators if one.kind == "operator" and one.training_thread]
    largest = sorted((one for one in own if math.isfinite(one.self_s)), key=lambda one: -one.self_s)[:NAMED]
    named = [(shortened(one.name, NAME), one.self_s) for one in largest if one.self_s > LEAST_SHARE * rank.step_s]
    rest_s = (rank.operators_s or 0.0) - sum(s for _, s in named)
    parts = [
        *named,
        (text("other operators"), rest_s),
        (text("collective calls"), rank.collectives_s or 0.0),
        (text("Python between them"), rank.python_s or 0.0),
    ]
    label = text("where a step of {who} goes", who=name)
    if rank.gpu_busy_s is not None:
        label = text("where a step of {who} goes on the CPU", who=name)
    shown = [
        Part(called, s / rank.step_s, f"{duration(s)} ({percent(s / rank.step_s)})")
        for called, s in parts
        if math.isfinite(s / rank.step_s) and s / rank.step_s >= LEAST_SHARE
    ]
    yield Bar(label, shown)


def _rank_table(ranks: Sequence[RankProfile], told: Told, who: Caller) -> Table:
    """What no rank has is left out. First those that are slower than the middle one."""
    middle = (pace_s(told.middle) if told.middle else None) or math.inf
    slower = {rank.rank for rank in ranks if (pace_s(rank) or 0.0) > SLOWER * middle}
    first = sorted(ranks, key=lambda rank: (rank.rank not in slower, rank.rank))
    columns: list[tuple[Column, list[Inline]]] = [
        (Column(text("a step"), right=True, notation=durations), [_time(rank.step_s) for rank in first]),
        (Column(text("usual"), right=True, notation=durations), [_time(rank.usual_step_s) for rank in first]),
        (Column(text("operators"), right=True, notation=durations), [_time(rank.operators_s) for rank in first]),
        (
            Column(text("collective calls"), right=True, notation=durations),
            [_time(rank.collectives_s or None) for rank in first],
        ),
        (Column(text("Python between"), right=True, notation=durations), [_time(rank.python_s) for rank in first]),
        (Column(text("GPU busy"), right=True, notation=durations), [_time(rank.gpu_busy_s) for rank in first]),
        (Column(text("most at"), wrap=True, spare=True), [_most_at(rank, link=len(ranks) <= SHOWN) for rank in first]),
        (
            Column(text("events"), right=True, spare=True, notation=counts),
            [Span(count(rank.events), value=rank.events) if rank.events else DASH for rank in first],
        ),
    ]
    kept = [(column, cells) for column, cells in columns if any(cell != DASH for cell in cells)]
    names = [Span(who([rank.rank]), "strong" if rank.rank in slower else "plain") for rank in first]
    rows = [list(row) for row in zip(names, *(cells for _, cells in kept), strict=True)]
    caption = text("an average step, by rank")
    return Table(
        caption, [Column(text("who")), *(column for column, _ in kept)], rows, SHOWN, pgettext("more", "ranks")
    )


def _time(seconds: float | None) -> Span:
    return measured(seconds, duration)


def _most_at(rank: RankProfile, *, link: bool) -> Inline:
    """Hundreds of links would make a heavy page."""
    seen = busiest(rank)
    if seen is None:
        return DASH
    return _place(seen[0]) if link else Span(short_place(seen[0]), "code")


def _place(frame: Frame) -> Span:
    return Span(short_place(frame), "code", link=frame)


# --- lines -----------------------------------------------------------------------------------------------------------


def _lines(rank: RankProfile, name: str) -> Table:
    running = any(line.operator for line in rank.lines)
    columns = [
        Column(text("where"), wrap=True),
        Column(text("seen there"), right=True, notation=shares),
        Column(text("of a step"), right=True, notation=durations),
        *([Column(text("mostly running"), wrap=True, spare=True)] if running else []),
    ]
    rows: list[list[Inline]] = [
        [
            _place(line.frame),
            Span(percent(line.share), value=line.share),
            _time(line.seconds),
            *([_running(line)] if running else []),
        ]
        for line in rank.lines
    ]
    caption = counted(
        "lines of {who}, by {n:,} look at its training thread",
        "lines of {who}, by {n:,} looks at its training thread",
        rank.looks,
        who=name,
    )
    return Table(caption, columns, rows, LINES_SHOWN, pgettext("more", "lines"))


def _running(line: ProfiledLine) -> Inline:
    if not line.operator:
        return DASH
    name, share = shortened(line.operator, OPERATOR), percent(line.operator_share).replace(" ", "\u00a0")
    hover = line.operator if name != line.operator else ""
    return [Span(name, "code", hover=hover), Span(f" ({share})", "muted")]
