"""`Verified`: whether every byte is what was written, then the files, those that are not first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...language import text
from ...model import CheckedFile, NotAvailable, StepNumber, Verified
from ...step_numbers import step_words
from ...words.durations import duration
from ..blocks import Answer, Block, Column, Inline, Items, Span, Table, Tone
from ..common import DASH, measured
from ..grouping import group_by
from ..units import plural, size

TONES: dict[str, Tone] = {"good": "good", "extra": "info"}


def view(result: Verified) -> Iterator[Block]:
    words, tone = _answer(result.files)
    step: Inline = [text("step ", "步 "), measured(result.step, str)]
    if not isinstance(result.step, NotAvailable):
        step = step_words(StepNumber(None, result.step))
    files = text(plural(len(result.files), "file"), f"{len(result.files):,} 个文件")
    read = text(
        f"{size(result.bytes_read)} read in {duration(result.taken_s)}",
        f"用 {duration(result.taken_s)} 读了 {size(result.bytes_read)}",
    )
    kind = text(f"{result.kind} checkpoint", f"{result.kind} 检查点") if result.kind else ""
    yield Answer(words, [Span(result.path, "code"), kind, step, files, read], tone)
    if result.files:
        yield _table(result)
    if result.notes:
        yield Items(list(result.notes))


def _answer(files: Sequence[CheckedFile]) -> tuple[str, Tone]:
    bad = [f for f in files if f.state not in TONES]
    if len(bad) == 1:
        return text(
            f"{bad[0].name} is not what was written: {_state(bad[0])}", f"{bad[0].name} 与写入时不符：{_state(bad[0])}"
        ), "bad"
    if bad:
        kinds = text(", ", "、").join(f"{len(same):,} {_state(same[0])}" for same in group_by(bad, lambda f: f.state))
        return text(
            f"{len(bad):,} files are not what was written: {kinds}", f"{len(bad):,} 个文件与写入时不符：{kinds}"
        ), "bad"
    if not any(f.state == "good" for f in files):
        return text("nothing was verified: none of its files is known", "没有可校验的文件"), "warn"
    return text("every byte is what was written", "每个字节都与写入时一致"), "good"


def _state(file: CheckedFile) -> str:
    known = {"damaged": "损坏", "missing": "缺失", "wrong size": "大小不符", "unreadable": "无法读取"}
    return text(file.state, known.get(file.state, file.state))


def _table(result: Verified) -> Table:
    files = sorted(result.files, key=lambda f: (f.state == "good", f.state == "extra", f.name))
    by_rank = any(f.rank is not None for f in files)
    columns = [
        Column("file", wrap=True),
        Column("state", wrap=True),
        Column("bytes", right=True),
        Column("found", right=True, spare=True),
    ]
    columns += [Column("rank", right=True, spare=True)] if by_rank else []

    def row(f: CheckedFile) -> list[Inline]:
        state: list[str | Span] = [Span(f.state, TONES.get(f.state, "bad"))]
        if f.note:
            state.append(f" ({f.note})")
        found = [measured(n, "{:,}".format) for n in (f.bytes, f.found_bytes)]  # to the byte: that is what was checked
        cells: list[Inline] = [Span(f.name, "strong"), state, *found]
        return [*cells, DASH if f.rank is None else str(f.rank)] if by_rank else cells

    return Table("Files, what is wrong first", columns, [row(f) for f in files], 20, "files")
