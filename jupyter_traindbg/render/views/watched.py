"""`Watched`: one frame of the live view; what the job does comes first. Of 300 ranks the table has those that stand out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ...language import counted, pgettext, text
from ...model import StepNumber, Watched, WatchedEvent, WatchedRank, WatchedSeries
from ...step_numbers import behind, step_title
from ...step_parts import PARTS
from ...words.durations import duration
from ...words.series import series_words
from ..blocks import Answer, Bar, Block, Column, Curve, Inline, Items, Line, Part, Span, Table, Tone
from ..columns import alike
from ..common import DASH, clock, measured, step_columns, value
from ..notations import durations, settings, shares, sizes, values
from ..units import number, percent, size, steady

TONES: dict[str, Tone] = {
    "training": "good",
    "slow": "warn",
    "stalled": "warn",
    "hung": "bad",
    "diverged": "bad",
    "lost": "bad",
}
NOTATIONS = {"s": durations, "B": sizes, "%": shares, "loss": values, "grad_norm": values}
"""By the name of a series, else by its unit; `settings` where it has none."""
FEW_RANKS, MOST_ROWS, ALL_ROWS = 16, 12, 100
LATEST_EVENTS, ALL_EVENTS = 4, 40
LATE = 1.2


def view(result: Watched) -> Iterator[Block]:
    yield _answer(result)
    if result.why:
        yield Items([Span(why, "muted") for why in result.why[:3]])
    if result.view == "ranks":
        yield _ranks(result, everyone=True)
    elif result.view == "events":
        yield from _events(result.events, ALL_EVENTS)
    else:
        yield from _curves(result)
        if len(result.ranks) > 1:
            yield _ranks(result, everyone=False)
        yield from _events(result.events, LATEST_EVENTS)


def _answer(result: Watched) -> Answer:
    failed = any(finding.severity == "critical" for finding in result.findings)
    tone = "bad" if failed else TONES.get(result.state, "plain")
    ranks = counted("{n:,} rank", "{n:,} ranks", len(result.ranks))
    pace = ""
    if result.steps_per_s is not None:
        per_s = number(result.steps_per_s)
        pace = text("{per_s} steps/s", per_s=per_s)
    step = step_title(StepNumber(result.step, result.optimizer_step))
    return Answer(result.words, [result.target, step, ranks, pace], tone)


def _curves(result: Watched) -> Iterator[Block]:
    by_name = {series.name: series for series in result.series}
    for name in ("loss", "grad_norm"):
        if name in by_name:
            one = by_name[name]
            label = series_words(one.label)
            if len(result.ranks) > 1:
                label = text("{series} (rank {rank})", series=label, rank=result.ranks[0].rank)
            yield Curve(label, list(one.sketch), _words(one))
    yield from _split(by_name)
    rows = [
        [series_words(s.label), *_figures(s, (s.middle,) if len(result.ranks) == 1 else (s.low, s.middle, s.high))]
        for s in result.series
        if s.name not in [part.field for part in PARTS]
    ]
    heads, caption = [text("least"), text("median"), text("greatest")], text("Latest values over the ranks")
    if len(result.ranks) == 1:
        heads, caption = [pgettext("a value", "now")], text("Latest values")
    if rows:
        columns = [Column(text("series")), *(Column(h, right=True) for h in heads)]
        yield Table(caption, columns, rows, 20, pgettext("more", "series"))


def _words(series: WatchedSeries) -> str:
    known = [v for v in series.sketch if math.isfinite(v)]
    finite = math.isfinite(series.middle)
    now = text("now {value}", value=steady(series.middle)) if finite else text("now not finite")
    return text("{now}, from {value}", now=now, value=steady(known[0])) if known else now


def _figures(series: WatchedSeries, figures: Sequence[float]) -> Sequence[Inline]:
    """In one notation: each series is of its own kind, and is compared over the ranks."""
    notation = NOTATIONS.get(series.name, NOTATIONS.get(series.unit, settings))
    return alike([_figure(series, figure) for figure in figures], notation)


def _figure(series: WatchedSeries, figure: float) -> Inline:
    if math.isnan(figure):
        return Span("NaN", "bad") if series.name in ("loss", "grad_norm") else DASH
    if series.unit == "%":
        return measured(figure / 100, percent)
    if series.name in ("loss", "grad_norm"):
        return value(figure)
    return measured(figure, {"s": duration, "B": size}.get(series.unit, _setting))


def _setting(figure: float) -> str:
    return number(figure, 4)


def _split(by_name: dict[str, WatchedSeries]) -> Iterator[Block]:
    there = [(text(part.name), by_name[part.field].middle) for part in PARTS if part.field in by_name]
    whole = sum(v for _, v in there if v > 0)
    if 0 < whole < math.inf:
        parts = [Part(label, max(0.0, v) / whole, percent(max(0.0, v) / whole)) for label, v in there]
        yield Bar(text("where the time of a step goes"), parts)


def _ranks(result: Watched, *, everyone: bool) -> Table:
    paces = sorted(r.step_s for r in result.ranks if r.step_s is not None)
    usual = paces[(len(paces) - 1) // 2] if paces else None
    answering = [r for r in result.ranks if not r.problem and r.step]
    late = behind({r.rank: r.optimizer_step for r in answering}, [r.told_s for r in answering], usual)
    numbered = step_columns(_number(r) for r in result.ranks)

    def remark(rank: WatchedRank) -> Inline:
        if rank.problem:
            return Span(rank.problem, "warn")
        if rank.loss is not None and not math.isfinite(rank.loss):
            return Span(text("loss is not finite"), "bad")
        if steps := late.get(rank.rank):
            return Span(text("{steps} steps behind", steps=steps), "warn")
        if usual and rank.step_s is not None and len(result.ranks) > 1 and rank.step_s > usual * LATE:
            return Span(
                text("{step_s:.1f} x the median step", step_s=rank.step_s / usual),
                "warn",
            )
        return ""

    remarkable = any(remark(r) for r in result.ranks)
    many = len(result.ranks) > FEW_RANKS
    order = sorted(result.ranks, key=lambda r: (not remark(r), -(r.step_s or 0.0), r.rank)) if many else result.ranks
    rows: list[list[Inline]] = [
        [
            Span(r.name, "strong"),
            *(show(_number(r)) for _, show in numbered),
            measured(r.behind_s, duration),
            value(r.loss),
            measured(r.step_s, duration),
            DASH if r.data_wait_s is None or not r.step_s else measured(r.data_wait_s / r.step_s, percent),
            measured(r.rss_bytes, size),
            *([remark(r)] if remarkable else ()),
        ]
        for r in order
    ]
    columns = [
        Column("rank"),
        *(column for column, _ in numbered),
        Column(pgettext("how long", "ago"), right=True, spare=True, notation=durations),
        Column(text("loss"), right=True, notation=values),
        Column(text("step time"), right=True, notation=durations),
        Column(text("data wait"), right=True, spare=True),
        Column(text("resident"), right=True, spare=True, notation=sizes),
        *([Column(text("remark"), wrap=True)] if remarkable else ()),
    ]
    shown = ALL_ROWS if everyone else len(rows) if not many else MOST_ROWS
    caption = text("Ranks, the remarkable and the slowest first") if many else text("Ranks")
    return Table(caption, columns, rows, shown, pgettext("more", "ranks"))


def _number(rank: WatchedRank) -> StepNumber:
    return StepNumber(rank.step, rank.optimizer_step)


def _events(events: Sequence[WatchedEvent], most: int) -> Iterator[Block]:
    if events:
        since = any(e.optimizer_step is None for e in events)
        items: list[Inline] = [
            [
                Span(clock(e.time_s), "muted"),
                text(" step {step:,}: {event}", step=e.step if since else e.optimizer_step, event=e.text),
            ]
            for e in reversed(events[-most:])
        ]
        newest = text("Events, newest first")
        yield Items(items, text("Events, newest first; steps since the attach") if since else newest)
    if (more := len(events) - most) > 0:
        words = text("... and {n} more: see the result's events, or --json", n=more)
        if most < ALL_EVENTS:
            words = text("... and {n} more: {command}", n=more, command="`%watch --once --view events`")
        yield Line(Span(words, "muted"))
