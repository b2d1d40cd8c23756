"""What can be asked in SQL: one table a file, each with its columns and with how its rows come from what a job is asked.

`base` says what such a file defines; adding a table is adding a file. `duck` runs a query over their rows, in a process of its own that
`duck_helper` is, closed and bounded. `arrow_and_pandas` makes tables of results that are there already.
"""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import cast

from ..language import text
from .base import NOT_AVAILABLE, Column, Relation

__all__ = ["columns", "load", "meaning", "names"]

_NO_TABLES = {"arrow_and_pandas", "base", "duck", "duck_helper"}


@cache
def names() -> tuple[str, ...]:
    """All tables, in alphabetical order. Imports none of them."""
    found = {module.name for module in pkgutil.iter_modules([os.path.dirname(__file__)])}
    return tuple(sorted(found - _NO_TABLES))


def load(name: str) -> Relation:
    """The table called `name`."""
    return cast(Relation, import_module(f"{__package__}.{name}"))


def columns(name: str) -> Sequence[Column]:
    """All columns of the table called `name`, the reason why values are missing last."""
    return (*load(name).COLUMNS, NOT_AVAILABLE)


def meaning(name: str) -> str:
    """What a row of the table called `name` is, in one line and in the reader's language. `scripts/messages` collects it."""
    return text((load(name).__doc__ or "").strip().removesuffix("."))
