"""What a view is made of. A view says *what* is shown, in these few blocks; `as_text` and `as_html` say how it looks.

So the terminal and the notebook can never disagree, and escaping happens in one place each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from ..language import pgettext, text
from ..model import Drawn, Excerpt, Frame

__all__ = [
    "PLACE",
    "PLACE_2",
    "Answer",
    "Bar",
    "Block",
    "Card",
    "Cards",
    "Column",
    "Curve",
    "Fold",
    "Frames",
    "Image",
    "Inline",
    "Items",
    "Line",
    "Link",
    "Notation",
    "Pair",
    "Pairs",
    "Part",
    "Source",
    "Span",
    "Table",
    "Tone",
    "and_more",
    "fitted",
    "not_available",
    "spans",
    "within",
]

Tone = Literal["plain", "strong", "muted", "good", "warn", "bad", "info", "code"]
"""Emphasis. It only ever repeats what the words say: nobody has to see colours."""
SYMBOLS: Mapping[Tone, str] = {"good": "✔", "warn": "▲", "bad": "✖", "info": "●"}


Link: TypeAlias = Frame | Excerpt | Path | str
"""Where a click leads: a line of a file, a file, or a page: its URL, or ``docs/logs.md#following`` for one of ours."""


@dataclass(frozen=True)
class Span:
    """A run of text. `why` becomes a footnote, printed once however often it is referred to.

    `hover` is shown where a mouse rests on it, in a notebook; a terminal has no such place. In a table, `fit` says the text in as many
    characters as there is room for, and what it left out is on hover; `value` is the number that the text says, by which a column is
    sorted and written in one notation. A `link` is for pages; at a terminal the words are enough.
    """

    text: str
    tone: Tone = "plain"
    why: str = ""
    hover: str = ""
    fit: Callable[[str, int], str] | None = None
    value: float | None = None
    link: Link | None = None


Inline: TypeAlias = str | Span | Sequence[str | Span]
Notation: TypeAlias = Callable[[Sequence[float]], Callable[[float], str]]
"""How the numbers of one column are written, so that they can be compared by eye: given all finite ones, how to write each."""


def spans(inline: Inline) -> tuple[Span, ...]:
    """`inline` as spans, whichever way it was written."""
    if isinstance(inline, str):
        return (Span(inline),)
    if isinstance(inline, Span):
        return (inline,)
    return tuple(Span(part) if isinstance(part, str) else part for part in inline)


PLACE, PLACE_2 = "\ue000", "\ue001"
"""What stands in a message for a span: ``within(text("in the file {path}", path=PLACE), Span(path, "code"))``."""


def within(said: str, *places: Span) -> list[str | Span]:
    """`said`, with the spans where it has their places, in whatever order its language wants them."""
    by_mark = dict(zip((PLACE, PLACE_2), places, strict=False))
    parts = re.split(f"([{PLACE}{PLACE_2}])", said)
    return [by_mark.get(part, part) for part in parts if part]


def fitted(inline: Inline, room: int) -> tuple[Span, ...]:
    """The spans of `inline`, those that can be said in less made to fit `room` characters, each by itself."""
    return tuple(span if span.fit is None else _shorter(span, span.fit(span.text, room)) for span in spans(inline))


def _shorter(span: Span, said: str) -> Span:
    return replace(span, text=said, hover=span.hover or (span.text if said != span.text else ""), fit=None)


def not_available(why: str) -> str:
    """A footnote: the reason of a `Span`."""
    return text("not available: {why}", why=why)


@dataclass(frozen=True)
class Answer:
    """What a view says first: the answer to what was asked, in one sentence. Behind it, pale, `about`: of whom, when, how long it took."""

    words: Inline
    about: Sequence[Inline] = ()
    tone: Tone = "plain"
    kind = "answer"

    @property
    def symbol(self) -> str:
        """The tone for eyes that see no colour; empty where the tone says nothing."""
        return SYMBOLS.get(self.tone, "")


@dataclass(frozen=True)
class Line:
    """One line of words; with `title`, the heading of what follows."""

    content: Inline
    title: bool = False
    kind = "line"


@dataclass(frozen=True)
class Items:
    """A list of lines below an optional lead."""

    items: Sequence[Inline]
    lead: Inline = ""
    kind = "items"


@dataclass(frozen=True)
class Column:
    """`right`: numbers; `notation` says how to write them, given all of the column.

    In a narrow terminal a `wrap` column may be broken into several lines, a `spare` one left out (and named).

    `below`, for the last column: it takes all the width that the others leave, and where that is too little, a line below each row.
    """

    name: str
    right: bool = False
    wrap: bool = False
    spare: bool = False
    below: bool = False
    notation: Notation | None = None


@dataclass(frozen=True)
class Table:
    """Rows whose first cell is their heading. Rows after the first `shown` are folded: ``... and 380 more parameters``, by their `noun`.

    `nested` rows belong to one above them: they are not sorted.
    """

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Inline]]
    shown: int = 20
    noun: str = ""
    nested: bool = False
    kind = "table"


def and_more(table: Table, shown: int) -> str:
    """What stands below a table of which only so many rows are shown."""
    noun = table.noun or pgettext("more", "rows")
    return text("... and {n} more {noun}", n=len(table.rows) - shown, noun=noun)


@dataclass(frozen=True)
class Frames:
    """A stack, innermost first. Runs of library frames are folded."""

    frames: Sequence[Frame]
    kind = "frames"


@dataclass(frozen=True)
class Pair:
    """A label and what it labels, on one line or (with `marks`) several; `below` these, what shows it."""

    label: str
    lines: Sequence[Inline]
    marks: Literal["none", "bullets", "numbers"] = "none"
    below: Sequence[Block] = ()


@dataclass(frozen=True)
class Pairs:
    pairs: Sequence[Pair]
    kind = "pairs"


@dataclass(frozen=True)
class Part:
    """A part of a `Bar`: its share in [0, 1] and its size in words."""

    name: str
    share: float
    words: str


@dataclass(frozen=True)
class Bar:
    """How a whole is divided."""

    label: str
    parts: Sequence[Part]
    kind = "bar"


@dataclass(frozen=True)
class Curve:
    """A small line chart; `words` says in text what it shows. Non-finite values are marked, not drawn."""

    label: str
    values: Sequence[float]
    words: str
    kind = "curve"


@dataclass(frozen=True)
class Image:
    """A picture. `words` say in text what it shows, `instead` is what a terminal shows; `details`, below it on demand, can be copied."""

    drawn: Drawn
    words: str
    instead: Sequence[Block] = ()
    details: Fold | None = None
    kind = "image"


@dataclass(frozen=True)
class Card:
    """Something that stands out as one thing. `symbol` repeats its `tone` for eyes that see no colour."""

    title: Inline
    body: Sequence[Block]
    tone: Tone = "plain"
    symbol: str = ""
    kind = "card"


@dataclass(frozen=True)
class Cards:
    """Several cards, the one that matters most first: in a notebook it is open and the others are folded to their titles; at a terminal the
    titles of all stand before them.
    """

    cards: Sequence[Card]
    kind = "cards"


@dataclass(frozen=True)
class Source:
    """A line of source between its neighbours, marked."""

    excerpt: Excerpt
    kind = "source"


@dataclass(frozen=True)
class Fold:
    """Details on demand: folded in a notebook; at a terminal, where nothing unfolds, only the summary, unless everything was asked for or
    they are `needed` there.
    """

    summary: Inline
    body: Sequence[Block]
    needed: bool = False
    kind = "fold"


Block: TypeAlias = Answer | Line | Items | Table | Frames | Pairs | Bar | Curve | Image | Card | Cards | Source | Fold
