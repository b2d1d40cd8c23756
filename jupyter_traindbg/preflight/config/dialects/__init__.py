"""What the frameworks call things: one module each, with a `DIALECT`. Adding a framework is one new file here.

A key that no dialect knows is no error: configurations are full of what we have nothing to say about.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

__all__ = ["Dialect", "every", "spoken"]


@dataclass(frozen=True)
class Dialect:
    """`keys` leads from a path (`entries.normal`) to a field of `Plan`; ``model.layers`` is one of its `ModelShape`. One field may have
    several spellings: what is written later counts.

    A dialect is spoken where one of its `marks` occurs: a path, the beginning of one (``actor_rollout_ref.``), or ``program:NAME``.
    `unless`: not where one of these occurs. `anywhere`: the keys count below any prefix as well (``training.num_workers``).
    """

    name: str
    marks: Collection[str]
    keys: Mapping[str, str]
    unless: Collection[str] = ()
    anywhere: bool = False
    complete: bool = False
    """It has a name of its own for everything, and others below its prefixes: ``anywhere`` is off where it is spoken."""
    defaults: Mapping[str, object] = field(default_factory=dict)
    """What the framework takes where nothing is said, of what decides the arithmetic."""
    source: str = ""
    """Where the names and the rules were read."""


def spoken(paths: Collection[str], programs: Collection[str]) -> list[Dialect]:
    """The dialects in which these keys are written, the more particular ones first."""

    def occurs(mark: str) -> bool:
        kind, _, name = mark.rpartition(":")
        if kind == "program":
            return any(name in program for program in programs)
        return any(path.startswith(mark) for path in paths) if mark.endswith(".") else mark in paths

    found = [d for d in every() if any(map(occurs, d.marks)) and not any(map(occurs, d.unless))]
    return [*found, *(d for d in every() if not d.marks)]


@functools.cache
def every() -> tuple[Dialect, ...]:
    """All dialects, by name; those without marks last."""
    modules = (importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__))
    found: list[Dialect] = [module.DIALECT for module in modules]
    return tuple(sorted(found, key=lambda d: (not d.marks, d.name)))
