"""`Picture`: what it shows, then the picture; at a terminal a sketch of it, and in words what it shows besides."""

from __future__ import annotations

from collections.abc import Iterator

from ...language import text
from ...model import Picture
from ..blocks import Answer, Block, Curve, Fold, Image, Items, Line, Span


def view(result: Picture) -> Iterator[Block]:
    first, *more = result.words or [result.title]
    yield Answer(first, [result.title] if result.words else [])
    for words in more:
        yield Line(words)
    sketches = [Curve(sketch.label, sketch.values, "") for sketch in result.sketches]
    details = [Items(result.details)] if result.details else []
    fold = Fold(text("the same in words"), details) if details else None
    if result.path:
        yield Line([text("written to "), Span(result.path, "code")])
    if result._drawn is not None:
        said = ". ".join([result.title, *result.words, *result.details])
        yield Image(result._drawn, said, [*sketches, *details], fold)
    else:
        yield from details
