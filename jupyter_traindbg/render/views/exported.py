"""`Exported`: what was written, and where."""

from __future__ import annotations

from collections.abc import Iterator

from ...language import text
from ...model import Exported
from ..blocks import Answer, Block, Line, Span
from ..units import plural, size

NAMES = {"parquet": "Parquet", "trace": "Chrome trace, for ui.perfetto.dev"}


def view(result: Exported) -> Iterator[Block]:
    ranks = text(f"of {plural(result.ranks, 'rank')}", f"（{result.ranks:,} 个 rank）")
    first, last = result.first_step, result.last_step
    which = text(f"steps {first:,} to {last:,} {ranks} written to ", f"第 {first:,}–{last:,} 步{ranks}已写入 ")
    if not result.rows:
        which = text("no step was there: an empty file was written to ", "没有训练步，写入了空文件 ")
    thinned = f", {result.thinned_rows:,} of them means over several steps" if result.thinned_rows else ""
    rows = text(
        f"{plural(result.rows, 'row')}{thinned}",
        f"{result.rows:,} 行" + (f"，其中 {result.thinned_rows:,} 行为多步均值" if thinned else ""),
    )
    about = [rows, size(result.bytes), NAMES.get(result.format, result.format)]
    yield Answer([which, Span(result.path, "code")], about, "info" if result.rows else "warn")
    if result.note:
        yield Line(Span(result.note, "warn"))
