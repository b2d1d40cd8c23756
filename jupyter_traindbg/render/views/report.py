"""`Report`: where the bundle lies, what is in it, what could not be had, what was taken out of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...language import counted, pgettext, text
from ...model import Report
from ...words.durations import duration
from ..blocks import Answer, Block, Column, Fold, Inline, Items, Line, Span, Table
from ..units import size

SHOWN = 6
"""Files or secrets in one cell."""


def view(result: Report) -> Iterator[Block]:
    missing = _missing(result)
    yield _answer(result)
    if result.index:
        yield Line(
            [result.not_opened or text("opened"), text(": "), Span(result.index, "code", link=Path(result.index))]
        )
    elif result.not_opened:
        yield Line(Span(result.not_opened, "warn"))
    yield Line(
        text(
            "unpack it and open index.html; issue.md is to be pasted into an issue; secrets were taken out, "
            "look it through all the same"
        )
        if not result.index
        else text(
            "issue.md beside it is to be pasted into an issue; secrets were taken out, look it through all the same"
        )
    )
    columns = [Column(text("part")), Column(text("what is there"), wrap=True)]
    rows: list[list[Inline]] = [[Span(part.title, "strong"), part.summary] for part in result.parts if not part.empty]
    if rows:
        yield Table(text("Inside"), columns, rows, 30, pgettext("more", "parts"))
    if missing:
        yield Items(missing[:SHOWN], Span(text("Not available"), "warn"))
        if len(missing) > SHOWN:
            yield Fold(text("{count} more", count=len(missing) - SHOWN), [Items(missing[SHOWN:])])
    if result.redacted:
        yield _redacted(result)
    else:
        yield Line(text("Redacted: nothing with the name or the shape of a secret was found."))


def _answer(result: Report) -> Answer:
    words: list[str | Span] = [text("the report is in "), Span(result.path, "code")]
    short = sum(bool(part.missing) for part in result.parts)
    if short:
        words.append(
            counted(
                "; {n:,} part of it could not be had in full", "; {n:,} parts of it could not be had in full", short
            )
        )
    files = counted("{n:,} file", "{n:,} files", len(result.files))
    about = [result.target, files, size(result.size_bytes), duration(result.taken_s)]
    return Answer(words, about, "info")


def _missing(result: Report) -> list[Inline]:
    """What is not there, with the reason; the parts that have the same one together."""
    by_reason: dict[str, list[str]] = {}
    for part in result.parts:
        for words in part.missing:
            by_reason.setdefault(words, []).append(part.title)
    comma, colon = pgettext("list", ", "), text(": ")
    return [[Span(comma.join(titles), "strong"), colon, words] for words, titles in by_reason.items()]


def _redacted(result: Report) -> Block:
    columns = [
        Column(text("secret")),
        Column(text("times"), right=True),
        Column(text("where"), wrap=True),
    ]
    rows: list[list[Inline]] = []
    for secret in result.redacted:
        more = text(", ... {n} more", n=len(secret.where) - SHOWN) if len(secret.where) > SHOWN else ""
        where = ", ".join(secret.where[:SHOWN]) + more
        rows.append([Span(f"{secret.kind}#{secret.number}", "strong"), str(secret.times), where])
    return Table(text("Redacted"), columns, rows, 12, pgettext("more", "secrets"))
