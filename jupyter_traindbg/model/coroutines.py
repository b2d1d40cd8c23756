"""What runs in an event loop: coroutines, which are on no thread's stack while they wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .observed import Frame

__all__ = ["Coroutine"]


@dataclass(frozen=True)
class Coroutine:
    """One asyncio task that is not done. ``frames``: innermost first, from what is awaited out to the task's own coroutine. ``waits_for``:
    ``"a future"``, ``"Event.wait"``, ``"gather of 3"``; None where it does not wait. ``awaits``: the ``id``s of the other tasks for which
    it waits.
    """

    id: int
    name: str
    frames: Sequence[Frame]
    waits_for: str | None
    awaits: Sequence[int] = ()
