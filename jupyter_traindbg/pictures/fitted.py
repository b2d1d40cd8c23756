"""Words that have to fit: names shortened in the middle, lists of ranks."""

from __future__ import annotations

import unicodedata

__all__ = ["elided", "width"]


def width(words: str) -> int:
    """In columns: a Chinese character is two wide."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in words)


def elided(words: str, most: int) -> str:
    """`words` in `most` columns, without their middle where they are longer: what tells names apart is at their ends."""
    if width(words) <= most:
        return words
    head, tail = words, words
    while width(head) > most // 2:
        head = head[:-1]
    while width(tail) > most - most // 2 - 1:
        tail = tail[1:]
    return f"{head.rstrip()}…{tail.lstrip()}"
