"""Dumps of stacks that people send: of py-spy, pystack, faulthandler and gdb, alone, one after another, or amid other text.

    file -> text, without colours, fences, quotes and prefixes -> one stream of lines for each who wrote them -> a reader for each format

Nothing of it is trusted: it is never executed, a file is read up to `MOST_BYTES`, and what is beyond any other limit is left out and said.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...errors import BadDump
from ...language import text
from ...terminal_codes import plain
from ..logs.lines import Said, is_numbered, unprefixed
from ..logs.opening import open_log
from . import py_spy_json
from .gdb import Gdb
from .names import completed
from .of_faulthandler import Faulthandler
from .py_spy import PySpy
from .pystack import Pystack
from .told import Book, Line, Reader, ToldFrame, ToldProcess, ToldThread

__all__ = ["Dump", "ToldFrame", "ToldProcess", "ToldThread", "holds_stacks", "read", "read_text"]

MOST_BYTES = 64 * 2**20
"""A process of a thousand threads with all its locals takes 10 MB."""
LONGEST_LINE = 1000
MOST_STREAMS = 4096
SAMPLE_BYTES = 2**16
LEAST, ALL = 0.25, 0.9
"""A text of which less is stacks is the log of a program that has dumped some; between the two it is both."""
_EVERY = 2000
_HEADINGS = re.compile(
    r"Thread (?:\d+|0x[0-9a-fA-F]+) \((?:active|idle)|Traceback for thread \d+ "
    r"|hread 0x[0-9a-fA-F]+ (?:\[[^\]\n]*\] )?\(most recent call first\)"
    r"|Process \d+: [^\n]*\n\s*Python v\d|Traceback \(most recent call first\)|\"owns_gil\"\s*:"
)
_RANK = re.compile(
    r"(?:^|[\s{,\"'(;])(?:RANK|OMPI_COMM_WORLD_RANK|SLURM_PROCID)[\"']?\s*[=:]\s*[\"']?(?P<rank>\d{1,6})\b"
)
_LOCAL_RANK = re.compile(r"--local[_-]rank[= ](?P<rank>\d{1,4})\b")


@dataclass(frozen=True)
class Dump:
    """What one text tells. ``share``: of its lines that say something, so many were part of a dump (0 to 1). ``rest``: the text without
    them, each line where it was; empty where next to nothing is left.
    """

    processes: Sequence[ToldProcess]
    share: float
    rest: str = ""
    notes: Sequence[str] = ()

    @property
    def counts(self) -> bool:
        """Whether it is to be read as a dump."""
        return bool(self.processes) and self.share >= LEAST


def holds_stacks(head: bytes) -> bool:
    """Whether what begins so may be a dump: a heading of one is in it."""
    return _HEADINGS.search(plain(head.decode("utf-8", "replace"))) is not None


def read(path: str, name: str, *, ends: float, begins: bytes = b"") -> Dump:
    """The dump in a file, until `ends` on the monotonic clock. `path`, `begins`: see `open_log`.

    Raises `BadDump` where it is empty, `BadLog` where it cannot be read.
    """
    opened = open_log(path, name, ends=ends, begins=begins)
    parts, size, notes = [], 0, []
    try:
        for block in opened.blocks():
            parts.append(block)
            size += len(block)
            if size > MOST_BYTES:
                notes.append(text("only the first {n} MiB of {name} were read", n=MOST_BYTES // 2**20, name=name))
                break
    finally:
        opened.close()
    if not parts:
        raise BadDump(text("{name} is empty", name=name))
    if opened.note:
        notes.append(f"{name}: {opened.note}")
    found = read_text(b"".join(parts).decode("utf-8", "replace"), ends=ends)
    return replace(found, notes=(*notes, *found.notes))


def read_text(words: str, *, ends: float) -> Dump:
    """The same of a text."""
    book = Book()
    rest = _without(words, py_spy_json.read(words, book))
    of_json = book.lines
    rows = rest.split("\n")
    numbered = is_numbered(rows[:400])
    streams: dict[object, _Stream] = {}
    spoken = 0
    late = False
    for number, row in enumerate(rows, 1):
        if number % _EVERY == 0 and time.monotonic() > ends:
            late = True
            break
        said = unprefixed(row[:LONGEST_LINE], numbered=numbered)
        whose = said.who if said.rank is None else said.rank
        if not said.text.strip():
            if whose in streams:
                streams[whose].blank()
            continue
        spoken += 1
        if whose not in streams and len(streams) >= MOST_STREAMS:
            book.cut = True
            continue
        if whose not in streams:
            streams[whose] = _Stream(book, said)
        if streams[whose].line(Line(number, said.text)):
            rows[number - 1] = ""
    for stream in streams.values():
        stream.end()
    for process in book.told:
        _complete(process)
    share = book.lines / max(1, spoken + of_json)
    return Dump(book.told, share, "" if share >= ALL else "\n".join(rows), _notes(book, late=late))


def _without(words: str, spans: Sequence[tuple[int, int]]) -> str:
    parts, at = [], 0
    for start, end in spans:
        parts.append(words[at:start])
        at = end
    return "".join([*parts, words[at:]])


def _notes(book: Book, *, late: bool) -> list[str]:
    notes = []
    if late:
        notes.append(text("it was not read to its end: the time was over"))
    if book.cut or any(t.cut for p in book.processes for t in p.threads):
        notes.append(text("it has more processes, threads or frames than are kept: the rest was left out"))
    return notes


class _Stream:
    """The lines of one writer, offered to one format's reader after the other, the last one that took any first."""

    def __init__(self, book: Book, said: Said) -> None:
        self._book, self._rank = book, said.rank
        self._readers: list[Reader] = [PySpy(book), Pystack(book), Faulthandler(book), Gdb(book)]
        self._told: int | None = None

    def line(self, line: Line) -> bool:
        """Whether it is part of a dump."""
        before = len(self._book.processes)
        reader = next((reader for reader in self._readers if reader.takes(line)), None)
        if reader is not None:
            self._book.lines += 1
            if reader is not self._readers[0]:
                self._readers[0].end()
                self._readers.remove(reader)
                self._readers.insert(0, reader)
        elif match := _RANK.search(line.text):
            self._told = int(match["rank"])
        for process in self._book.processes[before:]:
            process.rank = self._rank if self._rank is not None else self._told
            self._told = None
        return reader is not None

    def blank(self) -> None:
        for reader in self._readers:
            reader.blank()

    def end(self) -> None:
        for reader in self._readers:
            reader.end()


def _complete(process: ToldProcess) -> None:
    """With whole names of files, and the rank that its command line says; what may be its rank, by that or by a local that is called so."""
    for thread in process.threads:
        last = len(thread.frames) - 1
        thread.frames = [completed(process, frame, outermost=i == last) for i, frame in enumerate(thread.frames)]
    if process.rank is None and (said := _RANK.search(process.command)):
        process.rank = int(said["rank"])
    local = _LOCAL_RANK.search(process.command)
    process.hint = int(local["rank"]) if local is not None else _by_variables(process)


def _by_variables(process: ToldProcess) -> int | None:
    main = next((thread for thread in process.threads if thread.main), None)
    for variables in main.variables if main is not None else ():
        for name in ("global_rank", "rank"):
            if (value := variables.get(name, "")).isdigit() and len(value) < 7:
                return int(value)
    return None
