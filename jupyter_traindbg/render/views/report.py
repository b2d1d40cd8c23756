"""`Report`: where the bundle lies, what is in it, what could not be had, what was taken out of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...language import text
from ...model import Report
from ...words.durations import duration
from ..blocks import Answer, Block, Column, Fold, Inline, Items, Line, Span, Table
from ..units import plural, size

SHOWN = 6
"""Files or secrets in one cell."""


def view(result: Report) -> Iterator[Block]:
    missing = _missing(result)
    yield _answer(result)
    if result.index:
        yield Line(
            [f"{result.not_opened or text('opened', '已打开')}: ", Span(result.index, "code", link=Path(result.index))]
        )
    elif result.not_opened:
        yield Line(Span(result.not_opened, "warn"))
    yield Line(
        text(
            "unpack it and open index.html; issue.md is to be pasted into an issue; secrets were taken out, look it through all the same",
            "解压后打开 index.html；issue.md 可粘贴到 issue 中；机密信息已去除，发出前仍请过目",
        )
        if not result.index
        else text(
            "issue.md beside it is to be pasted into an issue; secrets were taken out, look it through all the same",
            "同目录的 issue.md 可粘贴到 issue 中；机密信息已去除，发出前仍请过目",
        )
    )
    columns = [Column(text("part", "部分")), Column(text("what is there", "内容"), wrap=True)]
    rows: list[list[Inline]] = [[Span(part.title, "strong"), part.summary] for part in result.parts if not part.empty]
    if rows:
        yield Table(text("Inside", "包含"), columns, rows, 30, text("parts", "个部分"))
    if missing:
        yield Items(missing[:SHOWN], Span(text("Not available", "无法获得"), "warn"))
        if len(missing) > SHOWN:
            yield Fold(
                text(f"{len(missing) - SHOWN} more", f"另有 {len(missing) - SHOWN} 项"), [Items(missing[SHOWN:])]
            )
    if result.redacted:
        yield _redacted(result)
    else:
        yield Line(
            text("Redacted: nothing with the name or the shape of a secret was found.", "去除：未发现机密信息。")
        )


def _answer(result: Report) -> Answer:
    words: list[str | Span] = [text("the report is in ", "报告已写入 "), Span(result.path, "code")]
    short = sum(bool(part.missing) for part in result.parts)
    if short:
        words.append(text(f"; {plural(short, 'part')} of it could not be had in full", f"；{short} 个部分未能完整获得"))
    files = text(plural(len(result.files), "file"), f"{len(result.files):,} 个文件")
    about = [result.target, files, size(result.size_bytes), duration(result.taken_s)]
    return Answer(words, about, "info")


def _missing(result: Report) -> list[Inline]:
    """What is not there, with the reason; the parts that have the same one together."""
    by_reason: dict[str, list[str]] = {}
    for part in result.parts:
        for words in part.missing:
            by_reason.setdefault(words, []).append(part.title)
    return [[Span(", ".join(titles), "strong"), f": {words}"] for words, titles in by_reason.items()]


def _redacted(result: Report) -> Block:
    columns = [
        Column(text("secret", "机密")),
        Column(text("times", "次数"), right=True),
        Column(text("where", "位置"), wrap=True),
    ]
    rows: list[list[Inline]] = []
    for secret in result.redacted:
        more = f", ... {len(secret.where) - SHOWN} more" if len(secret.where) > SHOWN else ""
        where = ", ".join(secret.where[:SHOWN]) + more
        rows.append([Span(f"{secret.kind}#{secret.number}", "strong"), str(secret.times), where])
    return Table(text("Redacted", "已去除"), columns, rows, 12, text("secrets", "个机密"))
