"""`Environ`: whether a variable does harm; those that deserve a look, with what to do instead; the others; where all this was checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...language import counted, later, later_counted, pgettext, text
from ...language import named as name
from ...model import Environ, EnvironRow, EnvironValue
from ...words.ranks import compact_ranks
from .. import findings
from ..blocks import Answer, Block, Column, Fold, Inline, Items, Span, Table, Tone
from ..common import DASH
from ..grouping import named

FINE = ("real", "unused here")
TONES: dict[str, Tone] = {"harmful": "bad", "differs": "bad", "does nothing": "warn", "dead": "warn", "unknown": "info"}
STANDINGS = {
    "harmful": later("harmful"),
    "differs": later("differs"),
    "does nothing": later("does nothing"),
    "dead": later("dead"),
    "old name": later("old name"),
    "unknown": later("unknown"),
}
DIFFERENT = 4
"""So many values of one variable are shown."""


def view(result: Environ) -> Iterator[Block]:
    words, tone = _answer(result.rows)
    if tone in ("good", "plain") and result.findings:
        words = counted("{n:,} thing to look at", "{n:,} things to look at", len(result.findings))
        tone = findings.tone(result.findings)
    started = text("as the processes were started; a program may have changed it since")
    variables = counted("{n:,} variable", "{n:,} variables", len(result.rows))
    yield Answer(words, [result.target, compact_ranks(result.ranks), variables if result.rows else "", started], tone)
    first = [row for row in result.rows if row.standing not in FINE]
    rest = [row for row in result.rows if row.standing in FINE]
    if first:
        columns = [Column(text("variable")), Column(text("value"), wrap=True), Column(pgettext("a state", "is"))]
        columns += [Column(text("what it does"), wrap=True), Column(text("instead"), wrap=True)]
        yield Table(text("To look at"), columns, [_suspect(row) for row in first], 40, pgettext("more", "variables"))
    if rest:
        columns = [
            Column(text("variable")),
            Column(text("value"), wrap=True),
            Column(text("read by"), spare=True),
            Column(text("what it does"), wrap=True),
        ]
        yield Table(text("As it should be"), columns, [_fine(row) for row in rest], 40, pgettext("more", "variables"))
    sources: list[Inline] = [[Span(row.name, "strong"), text(": "), row.source] for row in result.rows if row.source]
    if sources:
        yield Fold(text("where each of these was checked"), [Items(sources)])


def _answer(rows: Sequence[EnvironRow]) -> tuple[str, Tone]:
    """The worst of what is to be said of any; each kind of standing has its own sentence."""
    if not rows:
        return text("no variable that has to do with training is set"), "plain"
    for standings, words, tone in _VERDICTS:
        names = [row.name for row in rows if row.standing in standings]
        if names:
            rest = sum(row.standing not in FINE for row in rows) - len(names)
            more = text("; {rest} more to look at", rest=rest) if rest else ""
            return counted(*words, len(names), who=named(names)) + more, tone
    return text("no variable is known to do harm, or to do nothing"), "good"


_VERDICTS: tuple[tuple[tuple[str, ...], tuple[str, str], Tone], ...] = (
    (("harmful",), later_counted("{who} does harm here", "{who} do harm here"), "bad"),
    (("differs",), later_counted("{who} is not the same on all ranks", "{who} are not the same on all ranks"), "bad"),
    (("does nothing", "dead"), later_counted("{who} does nothing", "{who} do nothing"), "warn"),
    (("old name",), later_counted("{who} is an old name", "{who} are old names"), "info"),
    (("unknown",), later_counted("{who} is not known", "{who} are not known"), "info"),
)


def _suspect(row: EnvironRow) -> list[Inline]:
    standing = Span(name(STANDINGS, row.standing), TONES.get(row.standing, "plain"))
    return [Span(row.name, "strong"), _values(row.values), standing, row.meaning, row.advice or DASH]


def _fine(row: EnvironRow) -> list[Inline]:
    reader = row.reader if row.standing == "real" else text("{reader} (not in use)", reader=row.reader)
    return [Span(row.name, "strong"), _values(row.values), reader, row.meaning]


def _values(values: Sequence[EnvironValue]) -> Inline:
    """One value, or each with the ranks that have it, the commonest first."""
    if len(values) == 1:
        return _value(values[0])
    words: list[str | Span] = []
    for value in values[:DIFFERENT]:
        words += [*([text("; ")] if words else []), compact_ranks(value.ranks), text(": "), _value(value)]
    more = len(values) - DIFFERENT
    return [*words, counted("; {n} more values", "; {n} more values", more)] if more > 0 else words


def _value(value: EnvironValue) -> Span:
    return Span(text("not set"), "muted") if value.value is None else Span(value.value or text("(empty)"), "code")
