"""What a program usually does next, by what it did before: training repeats itself, so the odd one out shows even between two ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import TypeVar

__all__ = ["expected"]

LONGEST = 8
MOST = 0.6
T = TypeVar("T", bound=Hashable)


def expected(history: Sequence[T]) -> T | None:
    """What followed the last few items of `history` whenever they came before; None where they never did, or it varied.

    The longest context that came before decides (prediction by partial matching, Cleary and Witten 1984, without its blending).
    Costs `LONGEST` walks over the history.
    """
    for length in range(min(LONGEST, len(history) - 1), 0, -1):
        context = tuple(history[-length:])
        followers = Counter(
            history[i + length]
            for i in range(len(history) - length)
            if history[i] == context[0] and tuple(history[i : i + length]) == context
        )
        if followers:
            item, count = followers.most_common(1)[0]
            return item if count >= MOST * followers.total() else None
    return None
