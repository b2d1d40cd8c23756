"""Runs one query in a process of its own: it may take so much memory and no more, opens no file, and can be killed at any moment.

Run by `jupyter_traindbg.tables.duck` as ``python -I -S duck_helper.py SITE_DIR LIFE_S``; it imports nothing of the package. In the process
that asks DuckDB would not keep its limits: the memory of a single value does not count there, and no interruption comes through while it is
being made.

Messages are marshalled plain data behind their length:

    -> (QUERY, {TABLE: [(COLUMN, TYPE), ...]}, MOST_ROWS, MOST_BYTES)
    <- ("names", [TABLE, ...])                     the query can be run, and reads these
    -> {TABLE: [ROW, ...]}
    <- ("rows", [(NAME, TYPE), ...], [ROW, ...], MORE)

In place of either answer may come ``("refused", KIND, TEXT)``: the query is not to be run, or failed. KIND is ``"statement"``, ``"sql"``,
``"memory"`` or ``"missing"``.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import re
import signal
import struct
import sys
import threading
from decimal import Decimal
from importlib import import_module
from typing import Any

LENGTH = struct.Struct("<Q")
DATA_BYTES, DATABASE_BYTES = 3 << 29, 1 << 30
"""What this process may hold, and what of it DuckDB counts itself: all but single values."""
THREADS = 2
NICE, NICE_AFTER_S = 5, 0.3
"""It runs beside the training, which comes first where a query takes long."""
CLOSED = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",  # a table that is not there is no variable of ours
    "memory_limit": f"{DATABASE_BYTES}B",
    "temp_directory": "",
    "max_temp_directory_size": "0KB",
    "threads": str(THREADS),
}
A_BATCH = 1024
_EXPLAIN = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*explain\b(\s+analyze\b)?(?:\s*\([^)]*\))?", re.I | re.S)
_ABOUT_TABLES = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/|\()*(?:describe|desc|show)\b", re.I | re.S)
_HIDING = re.compile(r"\bquery(?:_table)?\s*\(", re.I)
"""Which tables are read must be seen before it is run."""
_WORD = re.compile(r"\w+")


class Refused(Exception):
    """The query is not run. ``kind`` as in the messages."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def main(site_directory: str, life_s: str) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(
        signal.ITIMER_REAL, float(life_s)
    )  # whatever becomes of who asked, it does not outlive its purpose
    requests, replies = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    sys.path.append(site_directory)
    try:
        try:
            answer(requests, replies)
        except MemoryError:
            send(replies, ("refused", "memory", ""))
        except Refused as e:
            send(replies, ("refused", e.kind, str(e)))
    except EOFError:
        pass  # who asked has gone
    os._exit(0)


def answer(requests: int, replies: int) -> None:
    """One conversation. Raises `Refused`, and EOFError where the other side is gone."""
    query, tables, most_rows, most_bytes = receive(requests)
    duckdb = library()
    database = duckdb.connect(":memory:", config=CLOSED)
    limit_memory()
    try:
        words = set(_WORD.findall(query.lower()))
        named = {name: tables[name] for name in sorted(tables) if name in words}
        for name, columns in (named or tables).items():
            create(database, name, columns)
        asked, only_about = check(database, query)
        names = [] if only_about else needed(database, asked, named)
        send(replies, ("names", names))
        fill(database, receive(requests))
        database.execute("set lock_configuration = true")
        send(replies, ("rows", *run(database, query, most_rows, most_bytes)))
    except duckdb.OutOfMemoryException as e:
        raise Refused("memory", str(e)) from None
    except duckdb.Error as e:
        raise Refused("sql", str(e)) from None


def library() -> Any:
    """DuckDB's own module: its package, a quarter of a second of imports round it on a busy machine, adds nothing that is needed here."""
    try:
        duckdb: Any = import_module("_duckdb")
    except ImportError:
        try:
            duckdb = import_module("duckdb")
        except ImportError as e:
            raise Refused("missing", f"DuckDB cannot be imported: {e}") from None
    if not hasattr(duckdb.DuckDBPyConnection, "appender"):
        raise Refused("missing", f"this is DuckDB {duckdb.__version__}, and 2.0 or newer is needed")
    return duckdb


def limit_memory() -> None:
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = DATA_BYTES if hard == resource.RLIM_INFINITY else min(DATA_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def create(database: Any, name: str, columns: Any) -> None:
    """An empty table. Half a millisecond."""
    database.execute(f"create table {name} ({', '.join(f'{column} {kind}' for column, kind in columns)})")


def check(database: Any, query: str) -> tuple[str, bool]:
    """What `query` asks (of an EXPLAIN the query in it), and whether that is only about tables, whatever is in them.

    Raises `Refused`, and DuckDB's errors where it is wrong: before anything is measured.
    """
    explained = _EXPLAIN.match(query)
    asked = query[explained.end() :] if explained else query
    kinds = [statement.type.name for statement in database.extract_statements(asked)]
    if len(kinds) != 1:
        raise Refused("statement", "several" if kinds else "none")
    if kinds != ["SELECT"]:
        raise Refused("statement", kinds[0])
    if _HIDING.search(asked):
        raise Refused("statement", "hidden")
    bind(database, asked)
    return asked, bool(_ABOUT_TABLES.match(asked) or (explained and not explained[1]))


def bind(database: Any, query: str) -> None:
    """Raises DuckDB's errors where `query` cannot be run over the tables that there are."""
    database.execute(f"explain {query}").fetchall()


def needed(database: Any, query: str, tables: Any) -> list[str]:
    """Those of `tables` without which `query` cannot be run: DuckDB's own list of names knows no JOIN ... USING. The others are gone
    afterwards: none that was not measured is ever taken for one that is empty.
    """
    found = []
    for name, columns in tables.items():
        database.execute(f"drop table {name}")
        try:
            bind(database, query)
        except Exception:  # noqa: BLE001 - it could be bound before
            found.append(name)
            create(database, name, columns)
    return found


def fill(database: Any, rows: Any) -> None:
    """Put the measured rows in."""
    for name, of_table in rows.items():
        with database.appender(name) as appender:
            for row in of_table:
                appender.append_row(*row)


def run(database: Any, query: str, most_rows: int, most_bytes: int) -> tuple[Any, Any, bool]:
    """Columns, rows, and whether there are more than may be told."""
    giving_way = threading.Timer(NICE_AFTER_S, give_way)
    giving_way.daemon = True
    giving_way.start()
    cursor = database.execute(query)
    columns = [(str(name), str(kind)) for name, kind, *_ in cursor.description]
    rows: list[list[Any]] = []
    size = 0
    while batch := cursor.fetchmany(A_BATCH):
        for row in batch:
            told = [plain(value) for value in row]
            size += sum(len(value) for value in told if isinstance(value, str))
            if len(rows) >= most_rows or size > most_bytes:
                return columns, rows, True
            rows.append(told)
    return columns, rows, False


def give_way() -> None:
    """Each thread by itself: that is how Linux has it."""
    for tid in map(int, os.listdir("/proc/self/task")):
        with contextlib.suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, tid, NICE)


def plain(value: Any) -> Any:
    """`value` as bool, int, float, str, list or dict; None is NULL."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    return value.hex() if isinstance(value, (bytes, bytearray)) else str(value)


# --- messages ------------------------------------------------------------------------------------------------------


def packed(message: Any) -> memoryview:
    data = marshal.dumps(message)
    return memoryview(LENGTH.pack(len(data)) + data)


def send(fd: int, message: Any) -> None:
    """Raises OSError where the other side is gone."""
    rest = packed(message)
    while rest:
        rest = rest[os.write(fd, rest) :]


def receive(fd: int) -> Any:
    """Raises EOFError where the other side is gone."""
    (length,) = LENGTH.unpack(exactly(fd, LENGTH.size))
    return marshal.loads(exactly(fd, length))


def exactly(fd: int, length: int) -> bytes:
    pieces = []
    while length:
        piece = os.read(fd, min(length, 1 << 20))
        if not piece:
            raise EOFError
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)


if __name__ == "__main__":
    main(*sys.argv[1:])
