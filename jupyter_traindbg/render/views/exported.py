"""`Exported`: what was written, and where."""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Exported
from ..blocks import Block, Line, Span
from ..units import plural, size

NAMES = {"parquet": "Parquet", "trace": "Chrome trace, for ui.perfetto.dev"}


def view(result: Exported) -> Iterator[Block]:
    yield Line(
        [
            "written to ",
            Span(result.path, "code"),
            f" · {size(result.bytes)} · {NAMES.get(result.format, result.format)}",
        ],
        title=True,
    )
    steps = f"steps {result.first_step} to {result.last_step} of {plural(result.ranks, 'rank')}"
    thinned = f", {result.thinned_rows} of them means over several steps" if result.thinned_rows else ""
    yield Line(f"{steps} · {plural(result.rows, 'row')}{thinned}")
    if result.note:
        yield Line(Span(result.note, "warn"))
