"""A result that has no view of its own, as its fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..language import counted
from ..model import NotAvailable, Result
from .blocks import Answer, Block, Inline, Pair, Pairs
from .common import DASH, measured

__all__ = ["view"]

MOST = 50
"""Lines per field; `Result.to_dict` has the rest."""


def view(result: Result) -> Iterator[Block]:
    """The name of the class and every field, nested data as ``key: value`` lines."""
    yield Answer(type(result).__name__)
    fields = {k: v for k, v in vars(result).items() if not k.startswith("_")} if hasattr(result, "__dict__") else {}
    pairs = [
        Pair(name, _lines(content)) for name, content in fields.items() if name not in ("silent", "verdict", "findings")
    ]
    if pairs:
        yield Pairs(pairs)


def _lines(content: Any) -> list[Inline]:
    if isinstance(content, NotAvailable):
        return [measured(content, str)]
    lines = [f"{path}: {leaf}" if path else leaf for path, leaf in _leaves(content, "")]
    if len(lines) > MOST:
        return [*lines[:MOST], counted("... and {n} more", "... and {n} more", len(lines) - MOST)]
    return [*lines] or [DASH]


def _leaves(content: Any, path: str) -> Iterator[tuple[str, str]]:
    """Every scalar below `content` with the way to it. Objects are named by their type, never asked for their repr."""
    if hasattr(content, "__dataclass_fields__") and not isinstance(content, NotAvailable):
        content = {name: getattr(content, name) for name in content.__dataclass_fields__}
    if isinstance(content, dict):
        for key, inner in content.items():
            yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(content, (list, tuple)):
        for index, inner in enumerate(content):
            yield from _leaves(inner, f"{path}[{index}]")
    elif content is None or isinstance(content, (str, int, float, NotAvailable)):
        yield path, str(content)
    else:
        yield path, type(content).__name__
