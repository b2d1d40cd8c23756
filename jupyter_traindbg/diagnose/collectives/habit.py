"""What a program usually does next, by what it did before: training repeats itself, so the odd one out shows even between two ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import TypeVar

__all__ = ["departed", "expected", "left_out"]

LONGEST = 8
MOST = 0.6
RECENT = 400
"""Of so many of the last calls the habit is read."""
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


def departed(history: Sequence[T], last: int = 1) -> bool:
    """Whether one of the `last` items is another one than what used to follow those before it. Costs one `expected` for each of them."""
    recent = history[-RECENT:]
    places = range(max(1, len(recent) - last), len(recent))
    return any(usual not in (None, recent[i]) for i in places for usual in [expected(recent[:i])])


def left_out(history: Sequence[T], item: T, since: int) -> int | None:
    """Where in `history`, from index `since` on, `item` was to come by all that was usual and another one came; None where it was nowhere.

    Costs one `expected` for each item from `since` on.
    """
    first = max(0, len(history) - RECENT)
    places = (i for i in range(max(since, first), len(history)) if history[i] != item)
    return next((i for i in places if expected(history[first:i]) == item), None)
