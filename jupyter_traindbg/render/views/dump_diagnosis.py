"""`DumpDiagnosis`: who holds the job up if it stands still, every rank in a line, what dumps cannot tell, what each file told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...language import counted, pgettext, text
from ...model import DumpDiagnosis, SentFile
from ...words.durations import duration
from ..blocks import Answer, Block, Column, Fold, Inline, Items, Pair, Pairs, Span, Table, Tone
from ..grouping import named
from .diagnosis import ranks_table

_KINDS_FIRST = ("stacks", "recorder", "log", "unread")


def view(result: DumpDiagnosis) -> Iterator[Block]:
    words, tone = _state(result)
    read = counted("{n} file", "{n} files", len(result.files))
    yield Answer(words, [result.target, read, duration(result.taken_s)], tone)
    if result.ranks:
        yield ranks_table(result.ranks)
    if result.why:
        yield Fold(text("Judged by"), [Items(list(result.why))], needed=True)
    if result.missing:
        yield Items(list(result.missing), Span(text("What is missing"), "strong"))
    if result.files:
        yield Fold(text("What each file told"), [_files(result.files)], needed=True)
    if result.variables:
        yield Fold(text("Locals"), [Pairs(list(_variables(result)))])


def _state(result: DumpDiagnosis) -> tuple[str, Tone]:
    """Of one look it is said who holds the others up, and never that the job is stuck, or healthy."""
    said: dict[str, tuple[str, Tone]] = {
        "stuck": (text("The job stood still"), "bad"),
        "failed": (text("The job has failed"), "bad"),
        "progressing": (text("The job got on between the looks"), "good"),
        "idle": (text("The kernel ran no cell"), "plain"),
        "ended": (text("The job has ended"), "plain"),
    }
    if result.state in said:
        return said[result.state]
    first = next(iter(result.findings), None)
    if first is None:
        return text("What was sent does not tell whether the job is stuck"), "warn"
    if not first.who:
        return text("If the job stands still, this is what is seen of why"), "bad"
    return text("If the job stands still, {who} holds it up", who=named(first.who)), "bad"


def _files(files: Sequence[SentFile]) -> Table:
    kinds: dict[str, Inline] = {
        "stacks": text("stacks"),
        "recorder": text("flight recorder"),
        "log": text("log"),
        "unread": Span(text("not read"), "warn"),
    }
    rows: list[list[Inline]] = [[f.name, kinds.get(f.kind, f.kind), f.words] for f in sorted(files, key=_first)]
    columns = [Column(text("file"), wrap=True), Column(text("what it is")), Column(text("told"), wrap=True)]
    return Table(text("Files"), columns, rows, 40, pgettext("more", "files"))


def _first(file: SentFile) -> int:
    return _KINDS_FIRST.index(file.kind) if file.kind in _KINDS_FIRST else len(_KINDS_FIRST)


def _variables(result: DumpDiagnosis) -> Iterator[Pair]:
    for rank, variables in sorted(result.variables.items()):
        yield Pair(
            text("rank {rank}", rank=rank), [Span(f"{name} = {value}", "code") for name, value in variables.items()]
        )
