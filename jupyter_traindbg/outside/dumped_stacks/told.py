"""What a dump tells of processes, while its lines are read: every format's reader writes into one `Book`, which is bounded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

__all__ = ["VARIABLE", "VARIABLES", "Book", "Line", "Reader", "ToldFrame", "ToldProcess", "ToldThread"]

MOST_PROCESSES, MOST_THREADS, MOST_FRAMES, MOST_LOCALS = 4096, 2048, 1024, 24
"""Of one file, one process, one thread and one frame. What is beyond is counted as cut off."""
LONGEST = 400
_MOST_CALLS = 64
VARIABLES = re.compile(r"\s*(?:Arguments|Locals):\s*$")
VARIABLE = re.compile(r"\s*(?P<name>[^\W\d]\w*|\.\d+): (?P<value>.*)")
"""As py-spy and pystack write them."""


class Line(NamedTuple):
    """A line without colours and prefixes, and its number in the file, from 1."""

    number: int
    text: str

    @property
    def indent(self) -> int:
        return len(self.text) - len(self.text.lstrip(" \t"))


class ToldFrame(NamedTuple):
    """``code``: the source line as the dump quotes it; empty where it quotes none."""

    file: str
    line: int
    function: str
    code: str = ""


@dataclass
class ToldThread:
    """``ident`` is how its dump tells it from others. ``tid`` is the kernel's number; ``active``: on a CPU, or ready for
    one; None: not told.

    ``calls``: the C functions further in than the innermost Python frame, the innermost first.
    """

    ident: str
    tid: int | None = None
    name: str = ""
    active: bool | None = None
    holds_gil: bool | None = None
    wants_gil: bool = False
    main: bool = False
    frames: list[ToldFrame] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    variables: list[dict[str, str]] = field(default_factory=list)
    """The locals of each frame, where they were dumped; as long as ``frames``."""
    cut: bool = False

    def add(self, frame: ToldFrame) -> None:
        if len(self.frames) >= MOST_FRAMES:
            self.cut = True
            return
        self.frames.append(ToldFrame(frame.file[:LONGEST], frame.line, frame.function[:LONGEST], frame.code[:LONGEST]))
        self.variables.append({})

    def call(self, name: str) -> None:
        if not self.frames and len(self.calls) < _MOST_CALLS:
            self.calls.append(name[:LONGEST])

    def quote(self, text: str) -> bool:
        """`text` is the line of source of the frame before it; whether there is one."""
        if not self.frames or not text.strip():
            return False
        self.frames[-1] = self.frames[-1]._replace(code=text.strip()[:LONGEST])
        return True

    def variable(self, name: str, value: str) -> None:
        if self.variables and len(self.variables[-1]) < MOST_LOCALS:
            self.variables[-1][name[:LONGEST]] = value[:LONGEST]

    def turn(self) -> None:
        """From outermost first to innermost first."""
        self.frames.reverse()
        self.variables.reverse()


@dataclass
class ToldProcess:
    """One look at one process. ``number``: the line where it begins. ``pid`` 0: not told. ``hint``: what may be its rank, or its number
    on its machine. ``problem``: why its stacks could not be had.
    """

    tool: str
    number: int
    pid: int = 0
    command: str = ""
    python: str = ""
    prefix: str = ""
    parent: int | None = None
    rank: int | None = None
    hint: int | None = None
    stopped: bool = False
    problem: str = ""
    threads: list[ToldThread] = field(default_factory=list)

    @property
    def told(self) -> bool:
        return bool(self.problem) or any(thread.frames for thread in self.threads)


class Book:
    """What has been told so far. ``lines``: so many lines of the text were part of a dump."""

    def __init__(self) -> None:
        self.processes: list[ToldProcess] = []
        self.lines = 0
        self.cut = False

    def process(self, process: ToldProcess) -> ToldProcess:
        if len(self.processes) < MOST_PROCESSES:
            self.processes.append(process)
        else:
            self.cut = True
        return process

    def thread(self, process: ToldProcess, thread: ToldThread) -> ToldThread:
        if len(process.threads) < MOST_THREADS:
            process.threads.append(thread)
        else:
            self.cut = True
        return thread

    @property
    def told(self) -> Sequence[ToldProcess]:
        return [process for process in self.processes if process.told]


class Reader(Protocol):
    """One format, line by line."""

    def takes(self, line: Line) -> bool:
        """Whether it is a line of this format; if it is, it has been taken into the book."""

    def blank(self) -> None:
        """There is a line without words."""

    def end(self) -> None:
        """There are no more lines, or those of another format begin."""
