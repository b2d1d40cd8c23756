"""What can be attached to, and what one types for it."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from .base import Maybe, Result, Silent
from .target import TargetName, parse_target

__all__ = ["Target", "Targets", "names_to_type"]

_PLAIN = re.compile(r"[\w.@%+=:,-]{1,26}")
"""The name of a notebook that needs no quoting, in a notebook and in a shell, and leaves room for the rest of a row in 80 columns."""
_LEAST = 8
"""Characters of a kernel's id that are shown at least: Jupyter's ids are random."""


@dataclass(frozen=True)
class Target:
    """Something that can be attached to (or, with ``why_not``, cannot). ``name`` is what `attach` takes, the whole id of a kernel.

    ``command`` is the command line, quoted as a shell needs it.
    """

    name: str
    pid: int
    kind: Literal["process", "rank", "launcher", "kernel"]
    command: str
    user: str
    running_s: float
    framework: Maybe[str]
    rank: int | None = None
    world_size: int | None = None
    agent: bool = False
    why_not: str | None = None
    part_of: str | None = None
    """The name of the launcher target this rank belongs to."""
    notebook: str | None = None
    """The path of the notebook whose kernel this is; None where it is none, or nobody tells (VS Code, ``jupyter console``)."""

    @property
    def attachable(self) -> bool:
        return self.why_not is None


@dataclass(frozen=True)
class Targets(Result):
    """Of this host, or of other `hosts`."""

    _rows = "targets"
    targets: Sequence[Target]
    hosts: Sequence[str] = ()
    silent: Sequence[Silent] = ()


def names_to_type(targets: Sequence[Target]) -> dict[str, str]:
    """The shortest text that `attach` takes for each target, by its ``name``.

    Of a kernel that is the name of its notebook, where no other kernel here has one of that name and it can be typed as it is; else as much
    of its id as tells it from the others.
    """
    kernels = {
        t.name: named.id for t in targets if (named := parse_target(t.name)) is not None and named.kind == "kernel"
    }
    notebooks = Counter(os.path.basename(t.notebook) for t in targets if t.name in kernels and t.notebook)

    def shortest(target: Target) -> str:
        notebook = os.path.basename(target.notebook or "")
        if notebooks[notebook] == 1 and _PLAIN.fullmatch(notebook):
            return notebook
        return _prefix(kernels[target.name], kernels.values())

    return {t.name: str(TargetName("kernel", shortest(t))) if t.name in kernels else t.name for t in targets}


def _prefix(ident: str, others: Collection[str]) -> str:
    """As much of a kernel's id as no other one's begins with. A connection file's path is no id, and stays whole."""
    if "/" in ident:
        return ident
    lengths = range(_LEAST, len(ident))
    return next((ident[:n] for n in lengths if sum(other.startswith(ident[:n]) for other in others) == 1), ident)
