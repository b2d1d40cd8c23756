"""`LogFollow`: the stage or the silence, for how long and for how long it usually is; who writes the log and what they do."""

from __future__ import annotations

from collections.abc import Iterator

from ...language import pgettext, text
from ...model import LogFollow, LogWriter, Maybe, NotAvailable
from ...words.durations import duration
from ..blocks import Answer, Block, Column, Inline, Line, Span, Table, Tone
from ..common import DASH
from ..links import placed

_COMMAND = 80


def view(result: LogFollow) -> Iterator[Block]:
    silent = _silent(result)
    words, tone = _state(result, silent)
    lines = text("{lines_read:,} lines", lines_read=result.lines_read)
    yield Answer(words, [result.target, lines if result.lines_read else ""], tone)
    yield Line(_stage(result, said=tone in ("good", "warn") and not silent))
    yield Line(_pauses(result, silent))
    if result.writers:
        yield _writers(result)
    elif not result.over:
        yield Line(text("Nobody on this machine has it open for writing (--pid names the process)."))


def _silent(result: LogFollow) -> bool:
    """Whether nothing has come for longer than is usual."""
    usual_s = result.usual_silence_s
    return not isinstance(usual_s, NotAvailable) and result.silent_s > usual_s


def _state(result: LogFollow, silent: bool) -> tuple[str, Tone]:
    if any(f.severity == "critical" for f in result.findings):
        return text("The log tells of a failure"), "bad"
    if result.over:
        return text("The log tells of no failure; {over}", over=result.over), "info"
    since = duration(result.silent_s)
    stage = text("in stage {stage}", stage=result.stage) if result.stage else ""
    if silent:
        words = text("no new line for {since}", since=since) + (stage and text(", {stage}", stage=stage))
    elif not result.lines_read:
        return text("no line has come yet"), "info"
    elif isinstance(result.in_stage_s, NotAvailable):
        words = stage or text("lines keep coming")
    else:
        for_s = duration(result.in_stage_s)
        words = text("{stage} for {for_s}", stage=stage, for_s=for_s) if stage else text("lines keep coming")
    return words, "warn" if result.findings else "info" if silent else "good"


def _stage(result: LogFollow, *, said: bool) -> Inline:
    """`said`: the stage and for how long has been said."""
    if result.stage is None or result.stage_line is None:
        return text("no line names a stage")
    line = result.stage_line.text.strip()
    stage = [Span(result.stage, "strong"), text(" for "), _seconds(result.in_stage_s)]
    return [
        *([text("the stage")] if said else [text("stage "), *stage, text(",")]),
        text(" usually takes "),
        _seconds(result.usual_stage_s),
        text(", visit {visits}", visits=result.visits),
        " · ",
        Span(f"{result.stage_line.number}: {line[:_COMMAND]}", "code"),
    ]


def _pauses(result: LogFollow, silent: bool) -> Inline:
    usual = [text("the longest usual pause is "), _seconds(result.usual_silence_s)]
    if silent:
        return usual
    return [text("last line {silent_s} ago; ", silent_s=duration(result.silent_s)), *usual]


def _seconds(measured: Maybe[float]) -> str | Span:
    return Span(DASH.text, "muted", measured.reason) if isinstance(measured, NotAvailable) else duration(measured)


def _writers(result: LogFollow) -> Table:
    columns = [
        Column("pid", right=True),
        Column(text("does"), wrap=True),
        Column(text("where"), wrap=True),
        Column(text("command"), wrap=True),
    ]
    rows: list[list[Inline]] = [_row(w) for w in result.writers]
    return Table(text("Written by"), columns, rows, 12, pgettext("more", "processes"))


def _row(writer: LogWriter) -> list[Inline]:
    return [
        str(writer.pid),
        writer.problem or writer.doing or DASH,
        placed(writer.where) if writer.where else DASH,
        Span(writer.command[:_COMMAND], "code"),
    ]
