"""What a picture shows, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..model import Sketch

__all__ = ["Told"]


@dataclass(frozen=True)
class Told:
    """`words`: lines, the answer first. `sketches`: its curves for a terminal. `details`: what can be read in the picture as well."""

    title: str
    words: Sequence[str]
    sketches: Sequence[Sketch] = ()
    details: Sequence[str] = ()
