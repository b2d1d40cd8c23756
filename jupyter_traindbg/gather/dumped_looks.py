"""Several looks at one process, made comparable: tools name things differently, and do not all say whether a thread ran. Pure functions."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence

from ..frames.whose import bare
from ..model import DumpedProcess, Frame, NotAvailable, Thread

__all__ = ["comparable"]

Key = tuple[str, int, str]


def comparable(looks: Sequence[DumpedProcess]) -> list[DumpedProcess]:
    """The same looks, with the fullest names of each place in all of them, and what one look knows of a thread in those that saw it at the
    same place and do not know.
    """
    if len({look.tool for look in looks}) < 2:
        return list(looks)
    names = _fullest(looks)
    named = [
        _map(look, lambda t: dataclasses.replace(t, frames=tuple(names.get(_key(f), f) for f in t.frames)))
        for look in looks
    ]
    known = {_at(t): t for look in named for t in look.stacks.threads if not isinstance(t.state, NotAvailable)}
    waits = {_at(t): t for look in named for t in look.stacks.threads if t.waiting_for is not None}
    return [_map(look, lambda t: _with(t, waits.get(_at(t)) or known.get(_at(t)))) for look in named]


def _fullest(looks: Sequence[DumpedProcess]) -> dict[Key, Frame]:
    found: dict[Key, Frame] = {}
    for look in looks:
        for thread in look.stacks.threads:
            for frame in thread.frames:
                best = found.get(_key(frame), frame)
                longer = len(frame.file) > len(best.file) and not frame.file.startswith("…")
                found[_key(frame)] = dataclasses.replace(
                    best,
                    file=frame.file if longer or best.file.startswith("…") else best.file,
                    function=max(best.function, frame.function, key=len),
                    library=best.library or frame.library,
                )
    return found


def _key(frame: Frame) -> Key:
    return os.path.basename(frame.file), frame.line, bare(frame.function)


def _at(thread: Thread) -> tuple[object, ...]:
    return thread.training, tuple(thread.frames)


def _map(look: DumpedProcess, change: Callable[[Thread], Thread]) -> DumpedProcess:
    threads = tuple(map(change, look.stacks.threads))
    return dataclasses.replace(look, stacks=dataclasses.replace(look.stacks, threads=threads))


def _with(thread: Thread, other: Thread | None) -> Thread:
    """Not of one that was running."""
    if other is None or thread.state == "running" or thread.waiting_for is not None:
        return thread
    return dataclasses.replace(thread, state=other.state, waiting_for=other.waiting_for)
