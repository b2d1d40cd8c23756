"""From where in the program collectives were issued, and what the source says of two such places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .observed import Frame

__all__ = ["CallSite", "CallSites", "Fork", "ForkAt"]

ForkAt = tuple[str, int, int]
"""A file and two of its lines, the smaller one first."""


@dataclass(frozen=True)
class CallSite:
    """An operation and the whole Python stack that issues it, innermost frame first."""

    op: str
    frames: Sequence[Frame]


@dataclass(frozen=True)
class CallSites:
    """What one rank's flight recorder says: the places, and by group the number of each of its last collectives with its index in `sites`.

    Sends and receives are not in it, nor calls without a Python stack, as those of autograd's own threads.
    """

    sites: Sequence[CallSite] = ()
    at: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Fork:
    """Two lines of one function. ``apart``: one pass through it comes to one of them at most, as to the two arms of an ``if``.

    ``names``: the texts in which two calls of the same function at these lines differ (``log("loss")``, ``log("accuracy")``); None where
    they differ in no text, or call different functions.
    """

    apart: bool
    names: tuple[str, str] | None = None
