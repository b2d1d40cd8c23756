"""Ask many processes at the same time: one that is stuck costs its own deadline and nobody else's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..errors import TraindbgError
from .base import Link

__all__ = ["each"]

AT_ONCE = 512
"""Ranks asked at the same time: with fewer threads than stuck ranks, their deadlines would add up."""

T = TypeVar("T")


def each(links: list[Link], ask: Callable[[Link], T]) -> list[tuple[Link, T | TraindbgError]]:
    """Ask all links, many at once; each with its answer or why there is none. `ask` keeps the deadline itself."""

    def careful(link: Link) -> T | TraindbgError:
        try:
            return ask(link)
        except TraindbgError as e:
            return e

    if len(links) <= 1:  # no threads for one: a whole `traindbg stacks PID` is to be quick
        return [(link, careful(link)) for link in links]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(AT_ONCE, len(links)), thread_name_prefix="traindbg-ask") as pool:
        return list(zip(links, pool.map(careful, links), strict=True))
