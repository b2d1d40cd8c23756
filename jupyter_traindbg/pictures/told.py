"""What a picture shows, in words, and how numbers are written in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..model import Sketch

__all__ = ["Told", "number"]


@dataclass(frozen=True)
class Told:
    """`words`: lines, the answer first. `sketches`: its curves for a terminal. `details`: what can be read in the picture as well."""

    title: str
    words: Sequence[str]
    sketches: Sequence[Sketch] = ()
    details: Sequence[str] = ()


def number(value: float) -> str:
    """Three digits: ``0.0123``, ``1.5e-05``, ``12,300``."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.3g}"
