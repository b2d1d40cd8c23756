"""How verdicts on Ray speak of workers, places and sizes, in both languages. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...frames.whose import shortened
from ...language import text
from ...model import RayWorker
from ...ray.workers.naming import together
from ...words.durations import time_words
from ..hang.words import and_list

__all__ = ["amount", "bytes_words", "calls_words", "names", "resources_words", "short"]

MOST_NAMED = 8
SHORT_S = 0.1


def names(rows: Iterable[RayWorker | str]) -> str:
    """``Collector[3]``, ``Collector[0-3, 5-7] (7)``, ``Collector[1], critic``; of many the first ones and the count."""
    wanted = list(dict.fromkeys(row if isinstance(row, str) else row.who for row in rows))
    return together(wanted, MOST_NAMED) + (f" ({len(wanted)})" if len(wanted) > 4 else "")


def short(where: str | None) -> str:
    """``/home/ada/collector.py:20 Engine.step`` as a sentence has it: without the directories."""
    if not where:
        return text("a place that could not be read")
    return shortened(where)


def amount(value: float) -> str:
    """``4``, ``0.5``: as Ray's resources are written."""
    return f"{value:g}"


def bytes_words(value: float) -> str:
    """``480 MiB``, ``1.2 GiB``."""
    return f"{value / 2**30:.1f} GiB" if value >= 2**30 else f"{value / 2**20:.0f} MiB"


def resources_words(wanted: Mapping[str, float]) -> str:
    """``2 CPU and 1 GPU``; those that Ray counts in bytes as sizes."""
    sized = ("memory", "object_store_memory")
    said = [f"{bytes_words(v)} {k}" if k in sized else f"{amount(v)} {k}" for k, v in sorted(wanted.items()) if v]
    return and_list(said) or text("no resources")


def calls_words(durations: Sequence[float]) -> str:
    """``7 calls took 0.2 s to 3.1 s``."""
    low, high = min(durations), max(durations)
    if high < SHORT_S:
        count = f"{len(durations)} call{'s' * (len(durations) != 1)}"
        return text("{count} took less than 0.1 s", count=count, count2=len(durations))
    if len(durations) == 1:
        return text("1 call took {high}", high=time_words(high))
    return text("{count} calls took {low} to {high}", count=len(durations), low=time_words(low), high=time_words(high))
