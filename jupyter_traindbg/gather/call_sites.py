"""What the source says of the places at which ranks issued calls of the same number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ..frames.forks import fork, partings
from ..frames.syntax import Source, parsed
from ..model import CallSites, Fork, ForkAt

__all__ = ["forks"]

MOST_FILES = 32


def forks(ranks: Iterable[CallSites], text: Callable[[str], str | None]) -> Mapping[ForkAt, Fork]:
    """Of each function in which calls of the same number part. `text` knows a file of the program, or a cell; of one that it does not know
    nothing is said. Parsing costs 1 ms per 100 lines; `MOST_FILES` at most are read.
    """
    parts = [one for one in partings(ranks) if one.one_function]
    files = list(dict.fromkeys(one.first.file for one in parts))[:MOST_FILES]
    sources = {file: source for file in files if (source := _source(text(file))) is not None}
    return {one.at: fork(sources[one.first.file], one) for one in parts if one.first.file in sources}


def _source(text: str | None) -> Source | None:
    tree = None if text is None else parsed(text)
    return None if tree is None else Source(tree)
