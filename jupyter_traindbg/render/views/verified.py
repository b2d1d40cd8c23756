"""`Verified`: whether every byte is what was written, then the files, those that are not first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...language import counted, later, pgettext, text
from ...model import CheckedFile, NotAvailable, StepNumber, Verified
from ...step_numbers import step_words
from ...words.durations import duration
from ..blocks import PLACE, Answer, Block, Column, Inline, Items, Span, Table, Tone, within
from ..common import DASH, measured
from ..grouping import group_by
from ..units import size

TONES: dict[str, Tone] = {"good": "good", "extra": "info"}


def view(result: Verified) -> Iterator[Block]:
    words, tone = _answer(result.files)
    step: Inline = within(text("step {step}", step=PLACE), measured(result.step, str))
    if not isinstance(result.step, NotAvailable):
        step = step_words(StepNumber(None, result.step))
    files = counted("{n:,} file", "{n:,} files", len(result.files))
    read = text("{size} read in {taken_s}", size=size(result.bytes_read), taken_s=duration(result.taken_s))
    kind = text("{kind} checkpoint", kind=result.kind) if result.kind else ""
    yield Answer(words, [Span(result.path, "code"), kind, step, files, read], tone)
    if result.files:
        yield _table(result)
    if result.notes:
        yield Items(list(result.notes))


def _answer(files: Sequence[CheckedFile]) -> tuple[str, Tone]:
    bad = [f for f in files if f.state not in TONES]
    if len(bad) == 1:
        return text("{name} is not what was written: {state}", name=bad[0].name, state=state_words(bad[0])), "bad"
    if bad:
        kinds = pgettext("list", ", ").join(
            f"{len(same):,} {state_words(same[0])}" for same in group_by(bad, lambda f: f.state)
        )
        return text("{count:,} files are not what was written: {kinds}", count=len(bad), kinds=kinds), "bad"
    if not any(f.state == "good" for f in files):
        return text("nothing was verified: none of its files is known"), "warn"
    return text("every byte is what was written"), "good"


STATES = (later("good"), later("extra"), later("damaged"), later("missing"), later("wrong size"), later("unreadable"))


def state_words(file: CheckedFile) -> str:
    """How a file was found."""
    return text(file.state) if file.state in STATES else file.state


def _table(result: Verified) -> Table:
    files = sorted(result.files, key=lambda f: (f.state == "good", f.state == "extra", f.name))
    by_rank = any(f.rank is not None for f in files)
    columns = [
        Column(text("file"), wrap=True),
        Column(text("state"), wrap=True),
        Column(text("bytes"), right=True),
        Column(text("found"), right=True, spare=True),
    ]
    columns += [Column("rank", right=True, spare=True)] if by_rank else []

    def row(f: CheckedFile) -> list[Inline]:
        state: list[str | Span] = [Span(state_words(f), TONES.get(f.state, "bad"))]
        if f.note:
            state.append(f" ({f.note})")
        found = [measured(n, "{:,}".format) for n in (f.bytes, f.found_bytes)]  # to the byte: that is what was checked
        cells: list[Inline] = [Span(f.name, "strong"), state, *found]
        return [*cells, DASH if f.rank is None else str(f.rank)] if by_rank else cells

    return Table(text("Files, what is wrong first"), columns, [row(f) for f in files], 20, pgettext("more", "files"))
