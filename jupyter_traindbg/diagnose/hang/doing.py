"""What one thread does at one moment, as a kind that rules can ask for, and in words for people. Pure functions.

The stacks bring the `Wait` of each thread. One that has no frame of its own (C code called from the user's line) is told by the source
line, where there is one: ``with self.lock`` or ``work.wait()``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ...frames.whose import own_frames, where
from ...language import later, text
from ...model import Frame, NotAvailable, SourceLine, Thread, Wait, WaitKind
from ...words.waits import awaited

__all__ = ["FOR_OTHER_RANKS", "Doing", "Kind", "doing", "kind_of", "phrase", "plural"]

Kind = WaitKind | Literal["computing", "signal", "unknown"]
"""``signal``: it is stopped by one."""

FOR_OTHER_RANKS: frozenset[Kind] = frozenset({"collective", "peer", "init", "teardown"})
"""Waits that end when other ranks do their part."""


@dataclass(frozen=True)
class Doing:
    """``wait``: what for, where it waits and that is known. ``frame``: where that is, in the user's code if there is any on the stack.
    ``at``: what tells whether two looks saw the same: kind and the user's lines, or the functions of libraries where none is the user's.
    """

    kind: Kind
    wait: Wait | None = None
    frame: Frame | None = None
    thread: Thread | None = None
    at: tuple[object, ...] = ()

    @property
    def users(self) -> Frame | None:
        """``frame``, if it is the user's code."""
        return self.frame if self.frame is not None and not self.frame.library else None

    @property
    def operation(self) -> str:
        """The collective or point-to-point call: ``all_reduce``; empty where it has no name."""
        return self.wait.op if self.wait is not None and self.kind in ("collective", "peer") else ""


def doing(thread: Thread | None, sources: Mapping[str, SourceLine]) -> Doing:
    """What `thread` does, from its stack and the kernel's view, and the source of the line where the stack ends in C code."""
    if thread is None:
        return Doing("unknown")
    frame = where(thread.frames)
    kind = kind_of(thread)
    top = thread.frames[0] if thread.frames else None
    wait = thread.waiting_for
    if wait is not None and wait.kind in ("native", "pipe", "file") and top is not None and frame is top:
        wait = _by_source(wait, sources.get(f"{top.file}:{top.line}"))
        kind = wait.kind
    own = own_frames(thread.frames)
    places: list[object] = [(f.file, f.line, f.function) for f in own if not f.library]
    if not places:
        places = [(f.file, f.function) for f in own]  # a library waits in loops, as often as not: its lines change
    return Doing(kind, wait, frame, thread, (kind, *places))


def kind_of(thread: Thread) -> Kind:
    """From its wait and its state alone."""
    if thread.waiting_for is not None:
        return thread.waiting_for.kind
    if thread.state == "running":
        return "computing"
    return "signal" if thread.state in ("stopped by a signal", "stopped by a debugger") else "unknown"


_GETS = re.compile(r"\.get\((\)|block|timeout|True)")
"""``inbox.get()`` of a `SimpleQueue`, which is C code: a dict's has an argument, and waits for nothing."""

_SLEEPS = re.compile(r"\bsleep\(")


def _by_source(wait: Wait, line: SourceLine | None) -> Wait:
    if line is None:
        return wait
    if wait.kind == "native" and line.takes:
        return Wait("lock")
    if wait.kind == "native" and ".join(" in line.text:
        return Wait("thread", "join")
    if wait.kind == "native" and _GETS.search(line.text):
        return Wait("queue", "get")
    if wait.kind == "native" and _SLEEPS.search(line.text):
        return Wait("sleep")  # it has slept, and waits for the GIL
    return Wait("terminal", "read") if wait.kind != "native" and "input(" in line.text else wait


def phrase(seen: Doing, many: int = 1) -> str:
    """``waits for the collective all_reduce``, ``sleeps``, ``computes``; of `many` ``wait for ...``."""
    words = _phrase(seen)
    return words if many == 1 else plural(words)


def plural(words: str) -> str:
    """What several do, of whom one ``waits ...``; in English, as Chinese has one form."""
    first, space, rest = words.partition(" ")
    return first.removesuffix("s") + space + rest if first in ("waits", "sleeps", "computes") else words


def _phrase(seen: Doing) -> str:
    if seen.kind == "idle" and seen.users is not None:
        return text("waits in an event loop")
    if seen.kind in _PHRASES:
        return text(_PHRASES[seen.kind])
    if seen.wait is None and seen.thread is not None and isinstance(seen.thread.state, NotAvailable):
        return text("computes or waits")
    if seen.wait is None:
        return text("waits for something that its stack does not show")
    return text("waits for {wait}", wait=awaited(seen.wait))


_PHRASES: Mapping[Kind, str] = {
    "computing": later("computes"),
    "idle": later("has nothing to do"),
    "signal": later("is stopped by a signal"),
    "sleep": later("sleeps"),
    "terminal": later("waits for somebody to answer at its terminal"),
}
