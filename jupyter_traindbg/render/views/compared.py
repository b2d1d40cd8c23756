"""`Compared`: how many keys fit, then those that do not, by kind, with the layers that repeat in one row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ...model import Compared, KeyDifference, TensorKey
from ..blocks import Block, Column, Inline, Line, Span, Table
from ..common import DASH
from ..grouping import group_by
from ..units import plural
from .inspected import folded_name, shape_of

SHOWN = 12
KINDS = {
    "missing": "Missing: the right side has them, the left does not",
    "unexpected": "Unexpected: the left side has them, the right does not",
    "shape": "Other shapes",
    "dtype": "Other dtypes",
}


def view(result: Compared) -> Iterator[Block]:
    verdict = (
        Span(f"{len(result.differences):,} differ", "warn") if result.differences else Span("all keys fit", "good")
    )
    yield Line([Span(result.left, "code"), " against ", Span(result.right, "code")], title=True)
    yield Line([f"{plural(result.left_keys, 'key')} against {result.right_keys:,} · {result.same:,} fit · ", verdict])
    for gone, put in result.renamed:
        words: list[str | Span] = ["seen through: "]
        words += (
            ["without ", Span(gone, "code"), " on the left"]
            if gone
            else ["with ", Span(put, "code"), " before or in the left's names"]
        )
        yield Line(words)
    for same in group_by(result.differences, lambda d: d.kind):
        yield _table(same)


def _table(differences: Sequence[KeyDifference]) -> Table:
    kind = differences[0].kind
    rows = group_by(differences, _alike)
    columns = [
        Column("key", wrap=True),
        Column("times", right=True),
        Column("left"),
        Column("right"),
        Column("see", wrap=True, spare=True),
    ]

    def row(same: Sequence[KeyDifference]) -> list[Inline]:
        one = same[0]
        name = folded_name([d.name for d in same])
        return [Span(name, "strong"), str(len(same)), _side(one.left), _side(one.right), one.reason or DASH]

    return Table(KINDS.get(kind, kind), columns, [row(same) for same in rows], SHOWN, "keys")


def _alike(d: KeyDifference) -> tuple[object, ...]:
    return re.sub(r"\d+", "#", d.name), _key(d.left), _key(d.right), d.reason


def _key(key: TensorKey | None) -> object:
    return None if key is None else (tuple(key.shape), key.dtype)


def _side(key: TensorKey | None) -> Inline:
    return DASH if key is None else f"{shape_of(key)} {key.dtype}"
