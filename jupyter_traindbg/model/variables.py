"""What the variables of a rank hold while it stands somewhere, as its agent tells them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from .observed import Frame

__all__ = ["NOTHING", "Change", "Key", "Origin", "Plain", "Scope", "Value", "ValueKind", "Variable"]

Plain = int | float | str | bool | None
Key = str | int | tuple[str | int, ...]
"""Of a dict, an index, or the name of an attribute."""
ValueKind = Literal[
    "plain",
    "text",
    "items",
    "pairs",
    "object",
    "function",
    "module",
    "work",
    "exchange",
    "store",
    "queue",
    "event",
    "other",
    "hidden",
]
Origin = Literal["program", "rank", "progress", "not known"]


@dataclass(frozen=True)
class Value:
    """One value. ``plain``: a small one itself, also the whole of a short text. ``type``: the name of its class. ``words``: of what is told
    by words alone; of a ``text`` its beginning.

    ``parts``: of ``items`` by their index, of ``pairs`` by their key, of an ``object`` its attributes; `size` counts all of them, of which
    the first few are here, and of a ``queue`` what is in it, of at most `most`. ``op``, ``peer`` and ``tag`` are those of a transfer:
    ``"SEND"`` of a ``work`` of torch's, ``"isend"`` of an ``exchange`` (a `P2POp`). ``file``: where the class of an object is.
    ``hidden``: a secret, by its name or shape.
    """

    kind: ValueKind
    type: str = ""
    words: str = ""
    plain: Plain = None
    parts: Mapping[Key, Value] = field(default_factory=dict)
    size: int | None = None
    most: int | None = None
    op: str = ""
    peer: int | None = None
    tag: int | None = None
    ident: int = 0
    """Tells one `work` from another."""
    file: str | None = None


NOTHING = Value("plain", "NoneType")


@dataclass(frozen=True)
class Scope:
    """A function that a thread is in, with its variables. ``depth`` counts all frames from the innermost, 0; ``reach``: the first line and
    column, and the last ones, of the expression that is under way in it, where Python knows.
    """

    frame: Frame
    depth: int
    reach: tuple[int, int, int, int] | None
    variables: Mapping[str, Value]
    outer: Mapping[str, Value] = field(default_factory=dict)
    """Of its module, those that it names."""

    def value(self, name: str) -> Value | None:
        found = self.variables.get(name)
        return self.outer.get(name) if found is None else found


@dataclass(frozen=True)
class Variable:
    """A value by the name under which a program has it: ``engine.args.micro_batches``. ``owner``: the function or the class that the name
    is one of; ``frame``: where that function stands.

    ``origin``: what the source says of where it comes from: ``"rank"`` where that has to do with which rank it is, ``"progress"`` where it
    counts or runs through something, so that it may well differ; ``"program"`` where it is neither.
    """

    name: str
    owner: str
    frame: Frame
    value: Value
    origin: Origin = "not known"


@dataclass(frozen=True)
class Change:
    """A variable that something else than the thread itself has changed while it was looked at, and what it held before."""

    variable: Variable
    before: Value
