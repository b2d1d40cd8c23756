"""What the columns of a query measure, by their names: seconds, bytes, a moment, or plain numbers; and how one such value is written."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from ..model import SqlColumn
from ..words.durations import duration
from .common import clock
from .units import size

__all__ = ["is_numeric", "unit_of", "writer"]

Unit = Literal["moment", "s", "bytes", ""]
DIGITS = 6
_NUMBERS = re.compile(r"(?:U?(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?|FLOAT|DOUBLE|DECIMAL.*)$")
_MADE = re.compile(r"count|[/*]")
"""What such an expression gives is in another unit than the columns that it names."""
_UNIT = re.compile(r"\b(time|issued|attached)_s\b|_(s|bytes)\b")


def is_numeric(column: SqlColumn) -> bool:
    return _NUMBERS.match(column.type) is not None


def unit_of(column: SqlColumn) -> Unit:
    """``avg(data_wait_s)`` are seconds, ``max(rss_bytes)`` bytes, ``time_s`` is a moment, in seconds since the epoch."""
    named = _UNIT.search(column.name) if is_numeric(column) and not _MADE.search(column.name) else None
    if named is None:
        return ""
    return "moment" if named[1] else "bytes" if named[2] == "bytes" else "s"


def writer(unit: Unit) -> Callable[[float], str]:
    """How one value in that unit is written."""
    return {"moment": clock, "s": duration, "bytes": size, "": _plain}[unit]


def _plain(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.{DIGITS}g}"
