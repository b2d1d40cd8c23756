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
    return _usual(_followers(history))


def _usual(followers: Counter[T]) -> T | None:
    item, count = followers.most_common(1)[0] if followers else (None, 0)
    return item if count >= MOST * followers.total() else None


def _followers(history: Sequence[T], least: int = 1) -> Counter[T]:
    """What followed the last few items of `history` before.

    The longest context that came before, `least` times, decides (prediction by partial matching, Cleary and Witten 1984, without its
    blending). Costs `LONGEST` walks over the history.
    """
    for length in range(min(LONGEST, len(history) - 1), 0, -1):
        context = tuple(history[-length:])
        followers = Counter(
            history[i + length]
            for i in range(len(history) - length)
            if history[i] == context[0] and tuple(history[i : i + length]) == context
        )
        if followers.total() >= least:
            return followers
    return Counter()


def departed(history: Sequence[T], last: int = 1, *, least: int = 1) -> bool:
    """Whether one of the `last` items never followed those before it, and another one did. Costs `LONGEST` walks for each of them.

    ``least``: so often what came before it has to have come, for a habit.
    """
    recent = history[-RECENT:]
    places = range(max(1, len(recent) - last), len(recent))
    return any(_in_whose_place(recent[:i], recent[i], least) is not None for i in places)


def left_out(history: Sequence[T], item: T, since: int) -> int | None:
    """Where in `history`, from index `since` on, `item` was to come by all that was usual, and one came that never had; None where it was
    nowhere. Costs `LONGEST` walks for each item from `since` on.
    """
    first = max(0, len(history) - RECENT)
    places = range(max(since, first), len(history))
    return next((i for i in places if _in_whose_place(history[first:i], history[i]) == item), None)


def _in_whose_place(history: Sequence[T], came: T, least: int = 1) -> T | None:
    """What usually follows `history`, where `came` never did; None where that has followed before, or nothing is usual."""
    followers = _followers(history, least)
    return None if came in followers else _usual(followers)
