"""What a page does that is too narrow: which columns leave a table, the spare ones, the last first; where a long word goes on in the next
line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .blocks import Column, Inline, spans

__all__ = ["JOINT", "LONG", "leaving"]

LONG, JOINT = re.compile(r"\S{33,}"), re.compile(r"(?<=\w[/._=,-])(?=\w)")
"""A word that may have to go on in the next line, and where in it that can be read."""
LETTER, BOLD, CAPITAL, GAP, WRAPPED = 0.56, 0.62, 0.14, 1.2, 9.0
"""In em: a letter, one of the first column, by what a capital is wider, what is between two columns, and a column that may be broken into
lines."""
CAPITALS = re.compile("[A-Z]")
SQUARE = re.compile("[\u2e80-\u9fff\uf900-\ufaff\uff00-\uff60]")
"""Chinese characters and their punctuation: one em each, and lines may break between them."""
WIDTHS = range(36, 97, 4)
"""In em: those that the stylesheet knows."""


def leaving(columns: Sequence[Column], rows: Sequence[Sequence[Inline]]) -> list[int]:
    """For each column the width of the page, in em, below which it is left out; 0 where it stays. An estimate: letters differ."""
    wide = [_width(column, [row[i] for row in rows], LETTER if i else BOLD) for i, column in enumerate(columns)]
    below = [0] * len(columns)
    for i in reversed([i for i, column in enumerate(columns) if column.spare]):
        needed = sum(width + GAP for width, gone in zip(wide, below, strict=True) if not gone)
        below[i] = next((width for width in WIDTHS if width >= needed), WIDTHS[-1])
    return below


def _width(column: Column, cells: Sequence[Inline], letter: float) -> float:
    texts = [column.name, *("".join(span.text for span in spans(cell)) for cell in cells)]
    whole = max(_letters(said, letter) for said in texts)
    if not column.wrap:
        return whole
    pieces = (
        piece
        for said in texts
        for word in SQUARE.sub(" ", said).split()
        for piece in (JOINT.split(word) if LONG.match(word) else [word])
    )
    return min(whole, max(max((_letters(piece, letter) for piece in pieces), default=0.0), WRAPPED))


def _letters(said: str, letter: float) -> float:
    squares = len(SQUARE.findall(said))
    return squares + (len(said) - squares) * letter + len(CAPITALS.findall(said)) * CAPITAL
