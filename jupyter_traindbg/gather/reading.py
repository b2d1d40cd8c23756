"""The source that ranks stand in, read together with their variables: what they wait for where no frame says it, what the lines at which
they wait look at, and which values have nothing to do with which rank it is.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..frames.asking import changes
from ..frames.awaited import Awaited, awaited
from ..frames.looked_at import locked, looked_at
from ..frames.origins import variables
from ..frames.syntax import Source, called, parsed
from ..model import Change, Look, ProcessStacks, Scope, Thread, Variable
from ..outside import filelocks, procfs

__all__ = ["NOTHING_READ", "Read", "Reader", "polled_paths", "refined"]

MOST_FILES = 8
"""Of one rank."""


@dataclass(frozen=True)
class Read:
    """Of one rank. ``top``: the innermost function, of which `awaited` tells. ``changed``: what its loop goes by, and that has changed
    between two looks. ``locked``: the numbers of the open files that a line tries to lock. ``sleeps_within``: the line calls no ``sleep``:
    if it sleeps, that is within what it calls.
    """

    top: Scope | None = None
    awaited: Awaited | None = None
    looks_at: Sequence[Variable] = ()
    changed: Sequence[Change] = ()
    locked: Sequence[int] = ()
    sleeps_within: bool = False
    variables: Sequence[Variable] = ()


NOTHING_READ = Read()
_PATH = re.compile(r"[^\s:*?]*[/.][^\s:*?]+")


class Reader:
    """Parses each text once, however many ranks run it: about 1 ms per 100 lines."""

    def __init__(self) -> None:
        self._parsed: dict[str, Source | None] = {}

    def read(
        self,
        scopes: Sequence[Scope],
        text_of: Callable[[str], str | None],
        rank: int,
        world_size: int,
        *,
        before: Sequence[Scope] = (),
    ) -> Read:
        """What `scopes` of that rank come to, by the texts of their files; nothing where there are none. `before`: where it was before."""
        if not scopes:
            return NOTHING_READ
        files = [s.frame.file for s in scopes] + [v.file for s in scopes for v in s.variables.values() if v.file]
        sources = {
            file: source for file in list(dict.fromkeys(files))[:MOST_FILES] if (source := self.source(text_of(file)))
        }
        seat = {"get_rank": rank, "get_world_size": world_size}
        own = next((s for s in scopes if not s.frame.library and s.frame.file in sources), None)
        seen = () if own is None else looked_at(own, sources[own.frame.file])
        tried = () if own is None else locked(own, sources[own.frame.file])
        within = [
            Variable(n, s.frame.function, s.frame, v) for s in scopes if s.frame.library for n, v in s.variables.items()
        ]
        programs = [s for s in scopes if not s.frame.library]
        return Read(
            scopes[0],
            awaited(scopes, sources, seat),
            (*within, *seen),
            () if own is None else _changes(before, own, sources),
            tried,
            own is not None and own is scopes[0] and not _calls_sleep(own, sources),
            variables(programs, sources),
        )

    def source(self, text: str | None) -> Source | None:
        """None of a text that is not known, or that is no Python."""
        if text is None:
            return None
        if text not in self._parsed:
            tree = parsed(text)
            self._parsed[text] = None if tree is None else Source(tree)
        return self._parsed[text]


def _changes(before: Sequence[Scope], own: Scope, sources: Mapping[str, Source]) -> tuple[Change, ...]:
    then = next((s for s in before if not s.frame.library and s.frame.file in sources), None)
    return () if then is None else changes(then, own, sources[own.frame.file])


def _calls_sleep(own: Scope, sources: Mapping[str, Source]) -> bool:
    statement = sources[own.frame.file].statement(own.frame.line)
    return statement is not None and "sleep" in called(statement)


def polled_paths(read: Read, looks: Sequence[Look], pid: int) -> list[str]:
    """What may be the files that the line at which process `pid` sleeps looks at."""
    threads = [t for look in looks[-1:] for p in look.processes if p.pid == pid for t in p.threads if t.training]
    if not any(t.waiting_for is not None and t.waiting_for.kind in ("sleep", "lock") for t in threads):
        return []
    values = [
        v.value.plain if v.value.kind == "plain" else v.value.words
        for v in read.looks_at
        if v.value.kind in ("plain", "text")
    ]
    named = [value for value in values if isinstance(value, str) and _PATH.fullmatch(value)]
    named += filelocks.locked_by_others(pid) if read.sleeps_within else []
    opened = (procfs.descriptor(pid, number) for number in read.locked)
    return named + [path for path in opened if path is not None and path.startswith("/")]


def refined(looks: Sequence[Look], pid: int, read: Read) -> tuple[Look, ...]:
    """The looks at process `pid`, whose training thread waits in C code at the place of which `read` knows for what."""
    if read.awaited is None or read.top is None:
        return tuple(looks)
    told, at = read.awaited, read.top.frame

    def stands(one: Thread) -> bool:
        """At that line, in C code that has no frame; or in that loop, asking or asleep."""
        kind = one.waiting_for.kind if one.waiting_for is not None else "native"
        here = one.frames[0] if one.frames else None
        if here is None or here.file != at.file:
            return False
        if told.polled:
            return here.function == at.function and kind in ("native", "sleep")
        return here.line == at.line and kind in ("native", "network") and one.state != "running"

    def thread(one: Thread) -> Thread:
        if not (one.training and stands(one)):
            return one
        return dataclasses.replace(one, waiting_for=told.wait, peer=told.peer, tag=told.tag)

    def process(one: ProcessStacks) -> ProcessStacks:
        return one if one.pid != pid else dataclasses.replace(one, threads=tuple(map(thread, one.threads)))

    return tuple(Look(look.at_s, tuple(map(process, look.processes))) for look in looks)
