"""Which finished tasks are worth reading: those that created one of several unnamed actors, for their order is what tells these apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ...model import RayActor

__all__ = ["creations"]

CLASSES = 20


def creations(actors: Sequence[RayActor]) -> list[str]:
    """The names of these tasks, of the most numerous classes."""
    counts = Counter(actor.class_name for actor in actors if not actor.name)
    return [f"{name}.__init__" for name, count in counts.most_common(CLASSES) if count > 1]
