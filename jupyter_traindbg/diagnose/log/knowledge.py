"""The families that are known: read from knowledge/failures/CODE.toml beside this package, once, and checked."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from ..knowledge.checking import BadKnowledge, each_file, parsed
from . import facts, signs
from .family import Family
from .schema import family

__all__ = ["BadKnowledge", "anchors", "families", "parse"]

FOLDER = "failures"


@cache
def families() -> Mapping[str, Family]:
    """All of them by code. Raises `BadKnowledge`, which names file and key, where one is not as the schema wants it.

    Reads some forty files, 60 ms; once per process.
    """
    return MappingProxyType(each_file(FOLDER, parse))


def parse(text: str, name: str) -> Family:
    """The family in `text`, the content of the file `name`. Raises `BadKnowledge`."""
    return family(parsed(text, name), name)


@cache
def anchors() -> tuple[str, ...]:
    """All literals that the rules look for: what a reader has to keep of a log. Case does not matter."""
    signals = (s for known in families().values() for s in (*known.signals, *known.refutes))
    return tuple(sorted({a.lower() for s in signals for a in s.anchors} | set(signs.ANCHORS) | facts.anchors()))
