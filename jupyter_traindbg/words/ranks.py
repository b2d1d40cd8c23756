"""Many ranks in few words: ``ranks 0-3, 5, 8-299 (297)``. Order and repetition never matter. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..language import text

__all__ = ["FEW", "compact_ranks", "number_runs", "ordinal", "rank_list", "ranks_words"]

PIECES = 12
"""A list with more gaps than this is cut short; the count behind it tells how many there are."""
FEW = 4
"""So many ranks are counted at a glance: a sentence gives the count of more."""


def compact_ranks(ranks: Iterable[int]) -> str:
    """``rank 5``, ``ranks 0, 2``, ``ranks 0-2 (3)``, ``no rank``: as tables and headings have them, in every language."""
    unique = sorted(set(ranks))
    return _counted("ranks", unique, rank_list(unique), above=2) if unique else "no rank"


def ranks_words(ranks: Iterable[int]) -> str:
    """``rank 5``, ``ranks 0-2``, ``ranks 3-299, every 8th (38)``: as a sentence has them, in the reader's language."""
    unique = sorted(set(ranks))
    if not unique:
        return text("no rank")
    if stride := _stride(unique):
        first, last = unique[0], unique[-1]
        numbers = text("{first}-{last}, every {nth}", first=first, last=last, nth=ordinal(stride), stride=stride)
    else:
        numbers = number_runs(unique)
    return _counted(text("ranks"), unique, numbers, above=FEW)


def rank_list(ranks: Iterable[int]) -> str:
    """The numbers alone: ``0-3, 5, 8-299``, ``3-299, every 8th``."""
    unique = sorted(set(ranks))
    stride = _stride(unique)
    return f"{unique[0]}-{unique[-1]}, every {ordinal(stride)}" if stride else number_runs(unique)


def number_runs(numbers: Iterable[int], most: int = PIECES) -> str:
    """``0-3, 5, 6, 8-299``; of more than `most` runs the first ones."""
    runs: list[tuple[int, int]] = []
    for n in sorted(set(numbers)):
        if runs and n == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], n)
        else:
            runs.append((n, n))
    pieces = [str(a) if a == b else f"{a}-{b}" if b > a + 1 else f"{a}, {b}" for a, b in runs[:most]]
    return ", ".join(pieces if len(runs) <= most else [*pieces, "..."])


def ordinal(n: int) -> str:
    """``1st``, ``12th``, ``22nd``."""
    return f"{n}{'th' if n % 100 in (11, 12, 13) else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')}"


def _counted(several: str, unique: Sequence[int], numbers: str, above: int) -> str:
    if len(unique) == 1:
        return f"rank {numbers}"
    return f"{several} {numbers} ({len(unique)})" if len(unique) > above else f"{several} {numbers}"


def _stride(unique: Sequence[int]) -> int:
    """What lies between each and the next, where that is the same for more than three; 0 where it is not, or nothing is left out."""
    stride = unique[1] - unique[0] if len(unique) > 3 else 0
    return stride if stride > 1 and unique == list(range(unique[0], unique[-1] + 1, stride)) else 0
