"""What the source says of the places at which ranks issued calls of the same number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ..frames.forks import fork, partings
from ..frames.syntax import Source, parsed
from ..model import CallSites, Fork, ForkAt, SourceLine
from ..outside.sources import source_lines

__all__ = ["Read", "read"]

MOST_FILES, MOST_LINES = 32, 200


@dataclass(frozen=True)
class Read:
    """``forks``: of each function in which calls of the same number part; ``sources``: the user's lines on the way to such calls."""

    forks: Mapping[ForkAt, Fork] = field(default_factory=dict)
    sources: Mapping[str, SourceLine] = field(default_factory=dict)


def read(ranks: Iterable[CallSites], text: Callable[[str], str | None]) -> Read:
    """Nothing where all calls come from the same places. `text` knows a file of the program, or a cell; of one that it does not know
    nothing is said. Parsing costs 1 ms per 100 lines; `MOST_FILES` at most are read.
    """
    ranks = list(ranks)
    parts = partings(ranks)
    if not parts:
        return Read()
    texts = _Texts(text)
    within = [one for one in parts if one.one_function]
    told = {one.at: fork(source, one) for one in within if (source := texts.source(one.first.file)) is not None}
    frames = dict.fromkeys(f for one in ranks for site in one.sites for f in site.frames if not f.library)
    wanted: dict[tuple[str, int | None], list[int]] = {}
    for frame in list(frames)[:MOST_LINES]:
        wanted.setdefault((frame.file, frame.cell), []).append(frame.line)
    sources = {
        f"{file}:{line}": seen
        for (file, cell), lines in wanted.items()
        if (said := texts.text(file)) is not None
        for line, seen in source_lines(said, lines, file, cell).items()
    }
    return Read({at: known for at, known in told.items() if known is not None}, sources)


class _Texts:
    """Each file once, and not too many."""

    def __init__(self, text: Callable[[str], str | None]) -> None:
        self._text = text
        self._texts: dict[str, str | None] = {}
        self._sources: dict[str, Source | None] = {}

    def text(self, file: str) -> str | None:
        if file not in self._texts:
            self._texts[file] = self._text(file) if len(self._texts) < MOST_FILES else None
        return self._texts[file]

    def source(self, file: str) -> Source | None:
        if file not in self._sources:
            text = self.text(file)
            tree = None if text is None else parsed(text)
            self._sources[file] = None if tree is None else Source(tree)
        return self._sources[file]
