"""Where a secret stands in a text, and what is put in its place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["PLACEHOLDER", "Span", "apart"]

PLACEHOLDER = re.compile(r"«redacted:[a-z-]+#\d+»")


@dataclass(frozen=True)
class Span:
    """``text[start:end]`` is a secret of `kind` (``""``: one seen before). `learn`: it is one wherever it stands."""

    start: int
    end: int
    kind: str
    learn: bool = True


def apart(spans: Sequence[Span]) -> list[Span]:
    """Those that overlap become one, of the kind of the one that starts first; of equal ones, the first that was found."""
    merged: list[Span] = []
    for span in sorted(spans, key=lambda s: (s.start, -s.end, s.kind == "")):
        if merged and span.start < merged[-1].end:
            last = merged[-1]
            merged[-1] = Span(last.start, max(last.end, span.end), last.kind or span.kind)
        else:
            merged.append(span)
    return merged
