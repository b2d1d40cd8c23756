"""One query over tables of plain rows, run by DuckDB in a helper process: read-only, closed, and bounded in memory, rows and time."""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import marshal
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, get_args, get_origin

from ..errors import BadQuery, DeadlineExceeded, MissingPiece
from ..language import later, pgettext, text
from .base import Column
from .duck_helper import DATABASE_BYTES, LENGTH, packed

__all__ = ["MOST_ROWS", "Found", "Query", "sql_type"]

HELPER = str(Path(__file__).with_name("duck_helper.py").resolve())
INSTALL = "pip install 'jupyter-traindbg[sql]'"
OLDEST_PYTHON = (3, 11)
"""That there is a DuckDB 2 for."""
MOST_ROWS, MOST_BYTES = 100_000, 1 << 26
"""What a query may give: rows, and characters in them."""
_NEEDED = ("LD_LIBRARY_PATH",)
"""For some Pythons to start at all."""
SPARE_S, REAP_S = 2.0, 5.0
"""So long after the deadline the helper ends by itself, whatever has become of us; and so long a killed one is waited for."""
_SQL_TYPES = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "VARCHAR"}
_LARGEST = 2**63 - 1
READS = later("a query only reads: SELECT, WITH, FROM, VALUES, DESCRIBE, SHOW, SUMMARIZE or EXPLAIN")
LISTED = later("`%sql` lists tables and columns")
_KIND = re.compile(r"^[\w ]*Error: ")
_NO_TABLE = re.compile(r"Table with name (.+) does not exist!")
_CLOSED = re.compile(
    r"file system operations are disabled|extensions is disabled|Loading external extensions|configuration has been locked"
)
_HINT = re.compile(r"^(?:Candidate bindings|Candidate functions|Did you mean)[: ]*(.+?)\??$", re.MULTILINE)


def sql_type(kind: Any) -> str:
    """SQL's name for what a column of `kind` holds."""
    if get_origin(kind) is list:
        return f"{sql_type(get_args(kind)[0])}[]"
    return _SQL_TYPES[kind]


@dataclass(frozen=True)
class Found:
    """What a query gave: columns with SQL's names for their types, rows in their order, and whether there are more."""

    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[Any]]
    more: bool


class Query:
    """One query: `needs` tells which tables it reads, `run` its rows. A context manager; takes 0.1 s, of which most is the helper's start.

    Raises `BadQuery` for what is wrong or not allowed, `MissingPiece` without DuckDB, `DeadlineExceeded` where it is not done by `ends`.
    """

    def __init__(self, query: str, tables: Mapping[str, Sequence[Column]], ends: float) -> None:
        """`ends`: on the clock of `time.monotonic`."""
        self._tables, self._began, self._ends = tables, time.monotonic(), ends
        self._helper = _start(max(0.1, ends - self._began) + SPARE_S)
        told = {name: [(c.name, sql_type(c.kind)) for c in columns] for name, columns in tables.items()}
        self._opening = (query, told, MOST_ROWS, MOST_BYTES)

    def __enter__(self) -> Query:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._helper.kill()
        for pipe in (self._helper.stdin, self._helper.stdout):
            assert pipe is not None
            pipe.close()
        with contextlib.suppress(
            subprocess.TimeoutExpired
        ):  # the kernel holds it: reaped by the next process that is started
            self._helper.wait(REAP_S)

    def needs(self) -> list[str]:
        """The tables whose rows it reads, in alphabetical order. The query is known to be sound then."""
        (names,) = self._ask(self._opening, "names")
        return list(names)

    def run(self, rows: Mapping[str, Sequence[Sequence[Any]]]) -> Found:
        """Its answer, over the rows of the tables that it needs; values are in the order of their columns."""
        fitting = {name: _fitting_rows(of, [column.kind for column in self._tables[name]]) for name, of in rows.items()}
        columns, found, more = self._ask(fitting, "rows")
        return Found([(name, kind) for name, kind in columns], found, more)

    def _ask(self, message: Any, expected: str) -> Any:
        with contextlib.suppress(BrokenPipeError):  # why it has gone is what it said last
            self._send(message)
        kind, *words = self._reply()
        if kind == "refused":
            self._refuse(*words)
        assert kind == expected
        return words

    def _send(self, message: Any) -> None:
        """Waits for a helper that does not read, as it does for one that does not answer. Raises BrokenPipeError where it has gone."""
        assert self._helper.stdin is not None
        fd = self._helper.stdin.fileno()
        os.set_blocking(fd, False)
        rest = packed(message)
        while rest:
            self._wait(fd, select.POLLOUT)
            rest = rest[os.write(fd, rest) :]

    def _reply(self) -> Any:
        (length,) = LENGTH.unpack(self._read(LENGTH.size))
        return marshal.loads(self._read(length))

    def _read(self, length: int) -> bytes:
        assert self._helper.stdout is not None
        fd = self._helper.stdout.fileno()
        pieces = []
        while length:
            self._wait(fd, select.POLLIN)
            piece = os.read(fd, min(length, 1 << 20))
            if not piece:
                self._gone()
            pieces.append(piece)
            length -= len(piece)
        return b"".join(pieces)

    def _wait(self, fd: int, event: int) -> None:
        """Until `fd` is ready. Raises DeadlineExceeded."""
        there = select.poll()  # no select: a notebook may have more than 1024 files open
        there.register(fd, event)
        if not there.poll(max(0, int(1000 * (self._ends - time.monotonic())))):
            raise DeadlineExceeded(
                text("the query is not done after {took:.3g} s", took=time.monotonic() - self._began),
                text("let it read less, or give a longer --timeout"),
            )

    def _gone(self) -> NoReturn:
        self._helper.kill()  # it is ending already, and says how
        status = self._helper.wait(REAP_S)
        how = signal.strsignal(-status) if status < 0 else f"exit status {status}"
        raise BadQuery(
            text("the query has ended its helper process ({how})", how=how),
            text("let it read less, or ask for less at a time"),
        )

    def _refuse(self, kind: str, words: str) -> NoReturn:
        if kind == "missing":
            raise MissingPiece(text("SQL needs DuckDB: {why}", why=words), INSTALL)
        if kind == "memory":
            most = DATABASE_BYTES >> 30
            raise BadQuery(
                text("the query needs more than the {most} GiB of memory that it may have", most=most),
                text("let it read less"),
            )
        if kind == "statement":
            raise BadQuery(*_not_run(words))
        raise BadQuery(*_in_one_line(words, list(self._tables)))


def _start(life_s: float) -> subprocess.Popen[bytes]:
    spec = importlib.util.find_spec("duckdb")
    if spec is None or spec.origin is None:
        newer = text("ask from Python 3.11 or newer, which DuckDB 2 needs")
        raise MissingPiece(text("SQL needs DuckDB"), INSTALL if sys.version_info >= OLDEST_PYTHON else newer)
    site_directory = os.path.dirname(os.path.dirname(spec.origin))
    try:
        return subprocess.Popen(
            # -I -S: nothing of the environment and of others' .pth files, and it starts twice as quickly
            [sys.executable, "-I", "-S", HELPER, site_directory, f"{life_s:.1f}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in _NEEDED if name in os.environ},  # no secret of ours is in there
            start_new_session=True,  # an interrupt of the notebook is not for it
        )
    except OSError as e:
        raise MissingPiece(
            text("no helper process could be started: {why}", why=e),
            text("check {program!r} and the process limit (`ulimit -u`)", program=sys.executable),
        ) from e


def _fitting_rows(rows: Sequence[Sequence[Any]], kinds: Sequence[Any]) -> list[list[Any]]:
    """Column by column, since nothing has to be done to numbers and truth values."""
    if not rows:
        return []
    columns = [
        values if kind in (bool, float) else [_fitting(value, kind) for value in values]
        for values, kind in zip(zip(*rows, strict=True), kinds, strict=True)
    ]
    return list(map(list, zip(*columns, strict=True)))


def _fitting(value: Any, kind: Any) -> Any:
    """`value` as SQL can hold it: a name that is not UTF-8 has escapes, an integer of more than 64 bits is none."""
    if value is None:
        return None
    if kind is int:
        return value if -_LARGEST <= value <= _LARGEST else None
    if kind is str:
        word = str(value)
        return word if word.isascii() else word.encode("utf-8", "backslashreplace").decode()
    if get_origin(kind) is list:
        return [_fitting(one, get_args(kind)[0]) for one in value]
    return value


# --- refusals, each in one line --------------------------------------------------------------------------------------


def _not_run(what: str) -> tuple[str, str]:
    """Cause and next step of a statement that is none to run."""
    if what == "none":
        return text("there is no query"), _what_may_be_asked()
    if what == "several":
        return text("one query at a time, and these are several"), text("ask one after the other")
    if what == "MULTI":
        return text("PIVOT looks for its columns by a query of its own"), text(
            "name them: `PIVOT ... ON rank IN (0, 1)`"
        )
    if what == "hidden":
        return text("a query in a text, by query() or query_table(), is not run here"), _what_may_be_asked()
    return text("{statement} is not run here", statement=what.replace("_", " ")), _what_may_be_asked()


def _what_may_be_asked() -> str:
    return text("{reads}; {listed}", reads=text(READS), listed=text(LISTED))


def _in_one_line(words: str, tables: Sequence[str]) -> tuple[str, str]:
    """DuckDB's error as cause and next step; what it thinks may have been meant is in the latter."""
    first, _, rest = words.partition("\n")
    cause = _KIND.sub("", first).strip().rstrip("!")
    if _CLOSED.search(first):
        why = cause.partition(" - ")[0]
        return text("a query opens no files, no network and no extensions: {why}", why=why), text(LISTED)
    missing = _NO_TABLE.search(first)
    if missing:
        near = difflib.get_close_matches(missing[1].lower(), tables, 1)
        there = pgettext("list", ", ").join(tables)
        cause = text("there is no table {name}", name=missing[1])
        if near:
            return cause, text("did you mean `{name}`? there are {tables}", name=near[0], tables=there)
        return cause, text("there are {tables}", tables=there)
    cause, hint = cause[:1].lower() + cause[1:], _HINT.search(rest)
    if hint:
        return cause, text("did you mean {names}? {listed}", names=hint[1], listed=text(LISTED))
    return cause, text(LISTED)
