"""`Verified`: one line that says whether all is well, then the files, those that are not first."""

from __future__ import annotations

from collections.abc import Iterator

from ...model import CheckedFile, NotAvailable, StepNumber, Verified
from ...step_numbers import step_words
from ..blocks import Block, Column, Inline, Items, Line, Span, Table, Tone
from ..common import DASH, measured
from ..units import duration, plural, size

TONES: dict[str, Tone] = {"good": "good", "extra": "info"}


def view(result: Verified) -> Iterator[Block]:
    bad = [f for f in result.files if f.state not in TONES]
    verdict = Span(f"{len(bad)} not what was written", "bad") if bad else Span("every byte is what was written", "good")
    words: list[str | Span] = [Span(result.path, "code"), " · ", verdict if result.files else "no files"]
    yield Line(words, title=True)
    about = [f"{result.kind} checkpoint"] if result.kind else []
    if not isinstance(result.step, NotAvailable):
        about.append(step_words(StepNumber(None, result.step)))
    about.append(f"{plural(len(result.files), 'file')}, {size(result.bytes_read)} read in {duration(result.taken_s)}")
    line: list[str | Span] = [" · ".join(about)]
    yield Line([*line, " · step ", measured(result.step, str)] if isinstance(result.step, NotAvailable) else line)
    if result.files:
        yield _table(result)
    if result.notes:
        yield Items(list(result.notes))


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
        cells: list[Inline] = [Span(f.name, "strong"), state, measured(f.bytes, size), measured(f.found_bytes, size)]
        return [*cells, DASH if f.rank is None else str(f.rank)] if by_rank else cells

    return Table("Files, what is wrong first", columns, [row(f) for f in files], 20, "files")
