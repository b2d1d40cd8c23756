"""`Compared`: whether all keys fit, then those that do not, by kind, with the layers that repeat in one row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ...language import counted, later, named, pgettext, text
from ...model import Compared, KeyDifference, TensorKey
from ..blocks import PLACE, Answer, Block, Column, Inline, Line, Span, Table, Tone, within
from ..common import DASH
from ..grouping import group_by
from .inspected import folded_name, shape_of

SHOWN = 12
KINDS = {
    "missing": later("Missing: the right side has them, the left does not"),
    "unexpected": later("Unexpected: the left side has them, the right does not"),
    "shape": later("Other shapes"),
    "dtype": later("Other dtypes"),
}


def view(result: Compared) -> Iterator[Block]:
    words, tone = _answer(result)
    sides: Inline = [Span(result.left, "code"), text(" against "), Span(result.right, "code")]
    right_keys = result.right_keys
    counts = counted(
        "{n:,} key against {right_keys:,}", "{n:,} keys against {right_keys:,}", result.left_keys, right_keys=right_keys
    )
    fit = text("{same:,} fit", same=result.same)
    yield Answer(words, [sides, counts, *([fit] if result.differences else [])], tone)
    for gone, put in result.renamed:
        message = (
            text("seen through: without {prefix} on the left", prefix=PLACE)
            if gone
            else text("seen through: with {prefix} before or in the left's names", prefix=PLACE)
        )
        yield Line(within(message, Span(gone or put, "code")))
    for same in group_by(result.differences, lambda d: d.kind):
        yield _table(same)


def _answer(result: Compared) -> tuple[str, Tone]:
    n = len(result.differences)
    if n:
        kinds = pgettext("list", ", ").join(_counted(same) for same in group_by(result.differences, lambda d: d.kind))
        return counted("{n:,} key differs: {kinds}", "{n:,} keys differ: {kinds}", n, kinds=kinds), "warn"
    if not result.same:
        return text("nothing was compared: no key is on both sides"), "warn"
    return text("all {same:,} keys fit", same=result.same), "good"


def _counted(same: Sequence[KeyDifference]) -> str:
    n, kind = len(same), same[0].kind
    words = {
        "missing": later("{n:,} missing"),
        "unexpected": later("{n:,} unexpected"),
        "shape": later("{n:,} of another shape"),
        "dtype": later("{n:,} of another dtype"),
    }
    return text(words.get(kind, later("{n:,} {kind}")), n=n, kind=kind)


def _table(differences: Sequence[KeyDifference]) -> Table:
    kind = differences[0].kind
    rows = group_by(differences, _alike)
    columns = [
        Column(text("key"), wrap=True),
        Column(text("times"), right=True),
        Column(pgettext("side", "left")),
        Column(pgettext("side", "right")),
        Column(text("see"), wrap=True, spare=True),
    ]

    def row(same: Sequence[KeyDifference]) -> list[Inline]:
        one = same[0]
        name = folded_name([d.name for d in same])
        return [Span(name, "strong"), str(len(same)), _side(one.left), _side(one.right), one.reason or DASH]

    return Table(named(KINDS, kind), columns, [row(same) for same in rows], SHOWN, pgettext("more", "keys"))


def _alike(d: KeyDifference) -> tuple[object, ...]:
    return re.sub(r"\d+", "#", d.name), _key(d.left), _key(d.right), d.reason


def _key(key: TensorKey | None) -> object:
    return None if key is None else (tuple(key.shape), key.dtype)


def _side(key: TensorKey | None) -> Inline:
    return DASH if key is None else f"{shape_of(key)} {key.dtype}"
