"""`LogFollow`: the stage or the silence, for how long and for how long it usually is; who writes the log and what they do."""

from __future__ import annotations

from collections.abc import Iterator

from ...language import text
from ...model import LogFollow, LogWriter, Maybe, NotAvailable
from ...words.durations import duration
from ..blocks import Answer, Block, Column, Inline, Line, Span, Table, Tone
from ..common import DASH
from ..links import placed

_COMMAND = 80


def view(result: LogFollow) -> Iterator[Block]:
    silent = _silent(result)
    words, tone = _state(result, silent)
    lines = text(f"{result.lines_read:,} lines", f"{result.lines_read:,} 行")
    yield Answer(words, [result.target, lines if result.lines_read else ""], tone)
    yield Line(_stage(result, said=tone in ("good", "warn") and not silent))
    yield Line(_pauses(result, silent))
    if result.writers:
        yield _writers(result)
    elif not result.over:
        yield Line(
            text(
                "Nobody on this machine has it open for writing (--pid names the process).",
                "本机没有进程打开它写入（可用 --pid 指定进程）。",
            )
        )


def _silent(result: LogFollow) -> bool:
    """Whether nothing has come for longer than is usual."""
    usual_s = result.usual_silence_s
    return not isinstance(usual_s, NotAvailable) and result.silent_s > usual_s


def _state(result: LogFollow, silent: bool) -> tuple[str, Tone]:
    if any(f.severity == "critical" for f in result.findings):
        return text("The log tells of a failure", "日志显示任务失败"), "bad"
    if result.over:
        return text(f"The log tells of no failure; {result.over}", f"日志未显示失败；{result.over}"), "info"
    since = duration(result.silent_s)
    stage = text(f"in stage {result.stage}", f"处于阶段 {result.stage}") if result.stage else ""
    if silent:
        words = text(f"no new line for {since}", f"{since} 没有新的一行") + (stage and text(f", {stage}", f"，{stage}"))
    elif not result.lines_read:
        return text("no line has come yet", "还没有任何行"), "info"
    elif isinstance(result.in_stage_s, NotAvailable):
        words = stage or text("lines keep coming", "持续有新行")
    else:
        for_s = duration(result.in_stage_s)
        words = text(f"{stage} for {for_s}", f"{stage}已 {for_s}") if stage else text("lines keep coming", "持续有新行")
    return words, "warn" if result.findings else "info" if silent else "good"


def _stage(result: LogFollow, *, said: bool) -> Inline:
    """`said`: the stage and for how long has been said."""
    if result.stage is None or result.stage_line is None:
        return text("no line names a stage", "没有阶段标志")
    line = result.stage_line.text.strip()
    stage = [Span(result.stage, "strong"), text(" for ", " 已 "), _seconds(result.in_stage_s)]
    return [
        *([text("the stage", "该阶段")] if said else [text("stage ", "阶段 "), *stage, text(",", "，")]),
        text(" usually takes ", "通常 "),
        _seconds(result.usual_stage_s),
        text(f", visit {result.visits}", f"，第 {result.visits} 次"),
        " · ",
        Span(f"{result.stage_line.number}: {line[:_COMMAND]}", "code"),
    ]


def _pauses(result: LogFollow, silent: bool) -> Inline:
    usual = [text("the longest usual pause is ", "通常最长停顿 "), _seconds(result.usual_silence_s)]
    if silent:
        return usual
    return [text(f"last line {duration(result.silent_s)} ago; ", f"最后一行 {duration(result.silent_s)} 前；"), *usual]


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
        placed(writer.where) if writer.where else DASH,
        Span(writer.command[:_COMMAND], "code"),
    ]
