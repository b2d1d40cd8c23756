"""`LogFollow`: the stage, for how long and for how long it usually is; the silence; who writes the log and what they do."""

from __future__ import annotations

from collections.abc import Iterator

from ...language import text
from ...model import LogFollow, LogWriter, Maybe, NotAvailable
from ..blocks import Block, Column, Inline, Line, Span, Table, Tone
from ..common import DASH
from ..units import duration

_COMMAND = 80


def view(result: LogFollow) -> Iterator[Block]:
    words, tone = _state(result)
    yield Line([Span(words, tone), f" · {result.target}"], title=True)
    yield Line(_stage(result))
    yield Line(_silence(result))
    if result.writers:
        yield _writers(result)
    elif not result.over:
        yield Line(
            text(
                "Nobody on this machine has it open for writing (--pid names the process).",
                "本机没有进程打开它写入（可用 --pid 指定进程）。",
            )
        )


def _state(result: LogFollow) -> tuple[str, Tone]:
    if result.over:
        return result.over, "info"
    if any(f.severity == "critical" for f in result.findings):
        return text("The log tells of a failure", "日志显示任务失败"), "bad"
    if result.findings:
        return text("Something to look at", "有值得注意的问题"), "warn"
    return text("Following", "跟踪中"), "good"


def _stage(result: LogFollow) -> Inline:
    lines = text(f"{result.lines_read:,} lines", f"{result.lines_read:,} 行")
    if result.stage is None or result.stage_line is None:
        return text(f"{lines}; none of them names a stage", f"{lines}；没有阶段标志")
    said = result.stage_line.text.strip()
    return [
        text("stage ", "阶段 "),
        Span(result.stage, "strong"),
        text(" for ", " 已 "),
        _seconds(result.in_stage_s),
        text(", usually ", "，通常 "),
        _seconds(result.usual_stage_s),
        text(f", visit {result.visits}", f"，第 {result.visits} 次"),
        f" · {lines} · ",
        Span(f"{result.stage_line.number}: {said[:_COMMAND]}", "code"),
    ]


def _silence(result: LogFollow) -> Inline:
    return [
        text("last line ", "最后一行 "),
        Span(duration(result.silent_s), "strong"),
        text(" ago; the longest usual pause is ", " 前；通常最长停顿 "),
        _seconds(result.usual_silence_s),
    ]


def _seconds(measured: Maybe[float]) -> str | Span:
    return Span(DASH.text, "muted", measured.reason) if isinstance(measured, NotAvailable) else duration(measured)


def _writers(result: LogFollow) -> Table:
    columns = [
        Column("pid", right=True),
        Column(text("does", "在做"), wrap=True),
        Column(text("where", "位置"), wrap=True),
        Column(text("command", "命令"), wrap=True),
    ]
    rows: list[list[Inline]] = [_row(w) for w in result.writers]
    return Table(text("Written by", "写入者"), columns, rows, 12, text("processes", "个进程"))


def _row(writer: LogWriter) -> list[Inline]:
    return [
        str(writer.pid),
        writer.problem or writer.doing or DASH,
        writer.where or DASH,
        Span(writer.command[:_COMMAND], "code"),
    ]
