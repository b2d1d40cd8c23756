"""A picture: a figure, and what it shows in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .base import Result, Silent

__all__ = ["Drawn", "Picture", "Sketch"]


class Drawn(Protocol):
    """What draws itself when it is asked to, and not before."""

    @property
    def figure(self) -> Any:
        """A ``matplotlib.figure.Figure`` that belongs to no window and to no cell."""

    def svg(self, alt: str) -> str:
        """An ``<svg>`` element in the colours of the page round it, called `alt` by a screen reader."""

    def png(self) -> bytes:
        """The same on white."""


@dataclass(frozen=True)
class Sketch:
    """A curve as a terminal can show it: `values` from left to right, NaN where one was not finite."""

    label: str
    values: Sequence[float]
    words: str


@dataclass(frozen=True)
class Picture(Result):
    """What ``job.plot(...)`` and ``%plot`` give. ``words``: what it shows, its answer first; ``details``: what is in it as well."""

    _rows = "sketches"
    of: str
    """``"loss"``, ``"lr"``, ``"grads"``, ``"memory"``, ``"estimate"``, ``"collectives"``, ``"profile"``, ``"query"``, ``"log"`` or
    ``"runs"``.
    """
    title: str
    words: Sequence[str]
    sketches: Sequence[Sketch] = ()
    details: Sequence[str] = ()
    silent: Sequence[Silent] = ()
    """Who is not in it, since there was no answer."""
    path: str = ""
    """The file that it was written to, where it was."""
    _drawn: Drawn | None = None

    @property
    def figure(self) -> Any:
        """The ``matplotlib.figure.Figure``, to be changed or saved; it is drawn at the first call, which takes about 0.1 s."""
        return self.drawn.figure

    @property
    def drawn(self) -> Drawn:
        assert self._drawn is not None
        return self._drawn
