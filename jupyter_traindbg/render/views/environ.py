"""`Environ`: whether a variable does harm; those that deserve a look, with what to do instead; the others; where all this was checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...language import counted, later_counted, text
from ...model import Environ, EnvironRow, EnvironValue
from ...words.ranks import compact_ranks
from .. import findings
from ..blocks import Answer, Block, Column, Fold, Inline, Items, Span, Table, Tone
from ..common import DASH
from ..grouping import named
from ..units import plural

FINE = ("real", "unused here")
TONES: dict[str, Tone] = {"harmful": "bad", "differs": "bad", "does nothing": "warn", "dead": "warn", "unknown": "info"}
DIFFERENT = 4
"""So many values of one variable are shown."""


def view(result: Environ) -> Iterator[Block]:
    words, tone = _answer(result.rows)
    if tone in ("good", "plain") and result.findings:
        n = len(result.findings)
        words, tone = text("{things} to look at", things=plural(n, "thing"), n=n), findings.tone(result.findings)
    started = text("as the processes were started; a program may have changed it since")
    variables = counted("{n:,} variable", "{n:,} variables", len(result.rows))
    yield Answer(words, [result.target, compact_ranks(result.ranks), variables if result.rows else "", started], tone)
    first = [row for row in result.rows if row.standing not in FINE]
    rest = [row for row in result.rows if row.standing in FINE]
    if first:
        columns = [Column("variable"), Column("value", wrap=True), Column("is"), Column("what it does", wrap=True)]
        yield Table(
            "To look at", [*columns, Column("instead", wrap=True)], [_suspect(row) for row in first], 40, "variables"
        )
    if rest:
        columns = [
            Column("variable"),
            Column("value", wrap=True),
            Column("read by", spare=True),
            Column("what it does", wrap=True),
        ]
        yield Table("As it should be", columns, [_fine(row) for row in rest], 40, "variables")
    sources: list[Inline] = [[Span(row.name, "strong"), f": {row.source}"] for row in result.rows if row.source]
    if sources:
        yield Fold("where each of these was checked", [Items(sources)])


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
    standing = Span(row.standing, TONES.get(row.standing, "plain"))
    return [Span(row.name, "strong"), _values(row.values), standing, row.meaning, row.advice or DASH]


def _fine(row: EnvironRow) -> list[Inline]:
    reader = row.reader if row.standing == "real" else f"{row.reader} (not in use)"
    return [Span(row.name, "strong"), _values(row.values), reader, row.meaning]


def _values(values: Sequence[EnvironValue]) -> Inline:
    """One value, or each with the ranks that have it, the commonest first."""
    if len(values) == 1:
        return _value(values[0])
    words: list[str | Span] = []
    for value in values[:DIFFERENT]:
        words += [*(["; "] if words else []), f"{compact_ranks(value.ranks)}: ", _value(value)]
    more = len(values) - DIFFERENT
    return [*words, f"; {more} more values"] if more > 0 else words


def _value(value: EnvironValue) -> Span:
    return Span("not set", "muted") if value.value is None else Span(value.value or "(empty)", "code")
