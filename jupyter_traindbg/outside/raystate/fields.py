"""Small readers of what Ray's JSON holds: numbers as strings, -1 as a huge unsigned number, ids of nothing but ``f``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ...model import Maybe, NotAvailable

__all__ = ["identity", "integer", "listed", "number", "resources", "seconds", "text"]

UNSET = 2**63
"""Unsigned -1 and its like: Ray's "not set"."""
OF_A_GROUP = re.compile(r"_group_(\d+_)?[0-9a-f]{36}$")


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def integer(value: Any, otherwise: int = 0) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        return otherwise


def number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def identity(value: Any) -> str | None:
    """An id in hex, or None for Ray's ways to say that there is none."""
    return value if isinstance(value, str) and value.strip("f") else None


def seconds(milliseconds: Any, why_not: str) -> Maybe[float]:
    """A time of day in seconds from one in milliseconds."""
    value = number(milliseconds)
    return value / 1000 if value is not None and 0 < value < UNSET else NotAvailable(why_not)


def resources(value: Any) -> Mapping[str, float]:
    """Amounts by name. Those of a placement group's bundle (``CPU_group_0_41a4...``) stand under the resource's own name."""
    found: dict[str, float] = {}
    for key, written in value.items() if isinstance(value, Mapping) else ():
        name, amount = OF_A_GROUP.sub("", str(key)), number(written)
        if amount is not None and name != "bundle":
            found[name] = max(amount, found.get(name, 0.0))
    return found


def listed(value: Any) -> Iterable[Mapping[str, Any]]:
    """The mappings in a list, whatever else is there."""
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []
