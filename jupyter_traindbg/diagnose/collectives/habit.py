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
    """What followed the last few items of `history` whenever they came before; None where they never did, or it varied."""
    followers = _followers(history)
    item, count = followers.most_common(1)[0] if followers else (None, 0)
    return item if count >= MOST * followers.total() else None


def _followers(history: Sequence[T]) -> Counter[T]:
    """What followed the last few items of `history` before.

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
            return followers
    return Counter()


def departed(history: Sequence[T], last: int = 1) -> bool:
    """Whether one of the `last` items never followed those before it, and another one did. Costs `LONGEST` walks for each of them."""
    recent = history[-RECENT:]
    places = range(max(1, len(recent) - last), len(recent))
    return any(expected(recent[:i]) is not None and recent[i] not in _followers(recent[:i]) for i in places)


def left_out(history: Sequence[T], item: T, since: int) -> int | None:
    """Where in `history`, from index `since` on, `item` was to come by all that was usual, and one came that never had; None where it was
    nowhere. Costs `LONGEST` walks for each item from `since` on.
    """
    first = max(0, len(history) - RECENT)
    places = (i for i in range(max(since, first), len(history)) if history[i] != item)
    return next((i for i in places if _instead(history[first:i], item, history[i])), None)


def _instead(history: Sequence[T], item: T, came: T) -> bool:
    return expected(history) == item and came not in _followers(history)
