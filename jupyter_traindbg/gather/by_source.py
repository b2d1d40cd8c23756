"""What the source says of ranks that stand at different lines, or that issued calls of the same number at different ones."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Generic, Protocol, TypeVar

from ..attach.base import Link
from ..model import Block, CallSites, Frame, JobEvidence, Look, Maybe, Past, RankEvidence, Scope
from ..outside import blocks
from ..tasks import Task
from . import call_sites, detours
from .reading import Reader

__all__ = ["Compared", "between_hosts", "compared"]

LEAST_S = 0.1


class Seen(Protocol):
    """What is compared of a rank: evidence, or what becomes evidence."""

    @property
    def rank(self) -> int: ...
    @property
    def pid(self) -> int: ...
    @property
    def looks(self) -> Sequence[Look]: ...
    @property
    def scopes(self) -> Sequence[Scope]: ...
    @property
    def call_sites(self) -> Maybe[CallSites]: ...


S = TypeVar("S", bound=Seen)


class Compared(Generic[S]):
    """Each of the three comparisons on a thread of its own: a disk may not answer."""

    def __init__(self, ranks: Sequence[S], text: Callable[[S, str], str | None], reader: Reader) -> None:
        """`text` reads a file as the process of that rank sees it; `reader` parses it."""
        self._ranks, self._text, self._reader = ranks, text, reader
        self.past = Task(self._who_is_past, "past")
        self.blocks = Task(self._blocks_that_differ, "blocks")
        self.calls = Task(self._read_calls, "calls")

    def _who_is_past(self) -> Sequence[Past]:
        standing = [(one, _frames(one)) for one in self._ranks]
        return detours.read(
            [detours.Standing(one.rank, at, one.scopes, self._source(one)) for one, at in standing if at]
        )

    def _source(self, one: S) -> detours.Texts:
        return cache(lambda file: self._reader.source(self._text(one, file)))

    def _blocks_that_differ(self) -> Mapping[str, Sequence[Block]]:
        stacks = enumerate(map(_frames, self._ranks))
        return blocks.where_ranks_differ(stacks, lambda number, file: self._text(self._ranks[number], file))

    def _read_calls(self) -> call_sites.Read:
        told = [(one, one.call_sites) for one in self._ranks if isinstance(one.call_sites, CallSites)]
        return call_sites.read([sites for _, sites in told], lambda file: self._text(told[0][0], file))


def between_hosts(seen: JobEvidence, links: Iterable[Link], ends: float) -> JobEvidence:
    """The evidence of several hosts, each of which has compared its own ranks, with what comes of comparing all of them. `links` lead to
    ranks on each host. Some milliseconds, and a round trip for each file, where ranks are apart; nothing is waited for after `ends`.
    """
    running = {one.rank: one.host for one in seen.ranks if one.ending is None}
    reads = {running[link.rank]: link for link in links if link.rank in running}
    read = cache(lambda host, file: reads[host].text_of(file, max(LEAST_S, ends - time.monotonic())))

    def text(one: RankEvidence, file: str) -> str | None:
        return read(one.host, file) if one.host in reads else None

    return compared(seen, text, ends)


def compared(seen: JobEvidence, text: Callable[[RankEvidence, str], str | None], ends: float) -> JobEvidence:
    """The evidence with what the source says of its ranks, as far as that was found out before `ends`."""
    by_source = Compared(seen.ranks, text, Reader())
    calls = by_source.calls.in_time(ends) or call_sites.Read()
    return dataclasses.replace(
        seen,
        sources={**calls.sources, **seen.sources},
        forks={**seen.forks, **calls.forks},
        blocks={**seen.blocks, **(by_source.blocks.in_time(ends) or {})},
        past=by_source.past.in_time(ends) or seen.past,
    )


def _frames(one: Seen) -> Sequence[Frame]:
    """Of its training thread at the last look; none where that was not seen."""
    threads = [t for look in one.looks[-1:] for p in look.processes if p.pid == one.pid for t in p.threads]
    return next((t.frames for t in threads if t.training), ())
