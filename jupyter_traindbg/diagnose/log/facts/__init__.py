"""What can be computed from a log and decides where its words mislead: counters, trends, gaps. One file per kind of fact.

A module here has ``facts(evidence: LogEvidence) -> list[Fact]``: pure, linear in the evidence, ``[]`` where there is nothing to tell. A
family's signal asks for one by name (``fact = "loss_is_nan"``). What the reader has to keep for it beyond the literals of the knowledge
are its ``ANCHORS``. Adding a fact is one new file, nothing else is edited.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType

from ....model import LogEvidence, LogLine, Subject

__all__ = ["Fact", "anchors", "facts"]


@dataclass(frozen=True)
class Fact:
    """Something computed. `values` may be used in the conditions and texts of a family, by the same names as captured groups.

    Numbers are in bytes, seconds or plain, as the name's ending says (``_bytes``, ``_s``, ``_count``, none).
    """

    name: str
    line: LogLine | None = None
    """The line that shows it best; where it began, for a trend."""
    values: Mapping[str, float | str] = field(default_factory=dict)
    rank: int | None = None
    who: tuple[Subject, ...] = ()
    """Whom to blame, where that is not `rank` or the one who wrote `line`."""
    words: str = ""
    """For the evidence, beside the line: what was computed, in the reader's language."""


def facts(evidence: LogEvidence) -> list[Fact]:
    """All facts of `evidence`, by the modules' names."""
    return [fact for find in _finders() for fact in find(evidence)]


def anchors() -> frozenset[str]:
    """The literals that facts look at and no family has."""
    return frozenset(word for module in _modules() for word in getattr(module, "ANCHORS", ()))


@cache
def _finders() -> list[Callable[[LogEvidence], list[Fact]]]:
    return [module.facts for module in _modules()]


@cache
def _modules() -> list[ModuleType]:
    return [importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)]
