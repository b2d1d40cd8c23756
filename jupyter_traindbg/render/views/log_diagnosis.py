"""`LogDiagnosis`: whether the log tells of a failure, and whose; the events that the verdict rests on in order of time; the files."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence

from ...language import counted, later, later_counted, pgettext, text
from ...model import Finding, LogDiagnosis, LogEvent, LogSource
from ...words.durations import duration
from ...words.ranks import compact_ranks
from ..blocks import Answer, Block, Column, Fold, Inline, Items, Span, Table, Tone
from ..common import DASH, measured
from ..grouping import named
from ..notations import sizes
from ..units import count, size

_LINE = 160
_TODAY_S = 2 * 86400.0
_WORDS = re.compile(r"\w")
_RULE = re.compile(r"([^\w\s])\1{7,}")


def view(result: LogDiagnosis) -> Iterator[Block]:
    words, tone = _state(result)
    yield Answer(words, [result.target, *_read(result), duration(result.taken_s)], tone)
    if result.timeline:
        yield _timeline(result.timeline, result.sources)
    if result.notes:
        yield Items(list(result.notes), Span(text("Note"), "strong"))
    if len(result.sources) > 1:
        yield Fold(counted("{n} file", "{n} files", len(result.sources)), [_files(result.sources)])


def _state(result: LogDiagnosis) -> tuple[str, Tone]:
    failures = [f for f in result.findings if f.severity == "critical"]
    n = len(failures)
    if n == 1:
        return text("The log tells of a failure") + _whose(failures[0], later(", on {who}")), "bad"
    if n:
        whose = _whose(failures[0], later(", the first on {who}"))
        return text("The log tells of {n} failures", n=n) + whose, "bad"
    if n := len(result.findings):
        words = later_counted(
            "The log tells of no failure, but of something to look at",
            "The log tells of no failure, but of {n} things to look at",
        )
        return counted(*words, n), "warn"
    if not result.lines_read:
        return text("There is nothing in the log"), "info"
    return text("The log tells of no failure"), "good"


def _whose(finding: Finding, words: str) -> str:
    """Those to blame, where they are ranks or other processes."""
    blamed = [one for one in finding.who if one.kind in ("rank", "loader_worker", "process")]
    return text(words, who=named(blamed)) if blamed else ""


def _read(result: LogDiagnosis) -> list[str]:
    parts = [
        counted("{n:,} line, {size}", "{n:,} lines, {size}", result.lines_read, size=size(result.bytes_read)),
    ]
    if result.ranks:
        parts.append(compact_ranks(list(result.ranks)))
    if result.launchers:
        parts.append(", ".join(result.launchers))
    if result.stage:
        parts.append(text("last stage: {stage}", stage=result.stage))
    return parts


def _timeline(events: Sequence[LogEvent], sources: Sequence[LogSource]) -> Table:
    timed = any(e.line.time_s is not None for e in events)
    several = len(sources) > 1
    columns = [
        *([Column(text("time"))] if timed else []),
        Column(text("line"), right=not several, wrap=several),
        Column(text("who"), spare=True),
        Column(text("event"), wrap=True),
        Column(text("says"), wrap=True),
    ]
    rows = [_event(e, sources, timed=timed, several=several) for e in events]
    return Table(text("What happened"), columns, rows, 12, pgettext("more", "events"))


def _event(event: LogEvent, sources: Sequence[LogSource], *, timed: bool, several: bool) -> list[Inline]:
    line = event.line
    place = f"{sources[line.source].name}:{line.number}" if several else str(line.number)
    said = " ".join(_RULE.sub(" ", line.text).split())
    more = f" (x {count(line.repeats)})" if line.repeats > 1 else ""
    row: list[Inline] = [
        Span(place, "strong"),
        line.who or DASH,
        event.words,
        Span((said if len(said) <= _LINE else said[: _LINE - 1] + "…") + more, "code") if _WORDS.search(said) else DASH,
    ]
    return [_clock(line.time_s), *row] if timed else row


def _clock(time_s: float | None) -> Inline:
    """As the log has it: it says no time zone, so none is converted."""
    if time_s is None:
        return DASH
    form = "%H:%M:%S" if time_s < _TODAY_S else "%m-%d %H:%M:%S"
    try:
        return time.strftime(form, time.gmtime(time_s))
    except (ValueError, OverflowError, OSError):
        return DASH


def _files(sources: Sequence[LogSource]) -> Table:
    columns = [
        Column(text("file"), wrap=True),
        Column("rank", right=True),
        Column(text("size"), right=True, notation=sizes),
        Column(text("lines"), right=True),
    ]
    rows: list[list[Inline]] = [
        [s.name, measured(s.rank, str), measured(s.size_bytes, size), f"{s.lines:,}"] for s in sources
    ]
    return Table(text("Files"), columns, rows, 40, pgettext("more", "files"))
