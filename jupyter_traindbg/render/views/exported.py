"""`Exported`: what was written, and where."""

from __future__ import annotations

from collections.abc import Iterator

from ...language import counted, later, named, text
from ...model import Exported
from ..blocks import Answer, Block, Line, Span
from ..units import size

NAMES = {"parquet": "Parquet", "trace": later("Chrome trace, for ui.perfetto.dev")}


def view(result: Exported) -> Iterator[Block]:
    first, last = result.first_step, result.last_step
    ranks = counted("of {n:,} rank", "of {n:,} ranks", result.ranks)
    which = text("steps {first:,} to {last:,} {ranks} written to ", first=first, last=last, ranks=ranks)
    if not result.rows:
        which = text("no step was there: an empty file was written to ")
    rows = counted("{n:,} row", "{n:,} rows", result.rows)
    if result.thinned_rows:
        rows += text(", {thinned:,} of them means over several steps", thinned=result.thinned_rows)
    about = [rows, size(result.bytes), named(NAMES, result.format)]
    yield Answer([which, Span(result.path, "code")], about, "info" if result.rows else "warn")
    if result.note:
        yield Line(Span(result.note, "warn"))
