"""The source lines behind the frames of a process: what they say, which locks they take, which they already hold.

Names are compared as they are written, nothing is run. A file that is newer than the process is left out: its lines may have moved.
"""

from __future__ import annotations

import ast
import os
import stat
import time
from collections.abc import Callable, Iterable, Sequence

from ..frames.syntax import FUNCTIONS, around, own, parsed
from ..model import Excerpt, ProcessStacks, SourceLine
from . import procfs

__all__ = ["as_printed", "excerpt", "read", "source_lines", "text_of", "whole"]

AROUND = 3
"""Lines before and after the one that is meant."""
LARGEST_BYTES = 2 * 2**20
LONGEST = 200
TICKS_S = 0.05
"""The kernel tells in ticks when a process began and when a file was written; who starts a program has often just written it."""


def read(
    stacks: Iterable[ProcessStacks], text: Callable[[ProcessStacks, str], str | None] | None = None
) -> dict[str, SourceLine]:
    """The lines at which the user's frames in `stacks` stand, by ``"file:line"``. About 5 ms a file; what cannot be read is left out.

    `text` reads a file for one of those processes, where `text_of` is not enough: the cells of a notebook, a process on another host.
    """
    wanted: dict[str, set[int]] = {}
    cells: dict[str, int | None] = {}
    seen_by: dict[str, ProcessStacks] = {}
    for process in stacks:
        for thread in process.threads:
            for frame in thread.frames:
                if not frame.library and not frame.file.startswith("<"):
                    wanted.setdefault(frame.file, set()).add(frame.line)
                    seen_by.setdefault(frame.file, process)
                    cells.setdefault(frame.file, frame.cell)
    found: dict[str, SourceLine] = {}
    for file, lines in wanted.items():
        said = text_of(seen_by[file].pid, file) if text is None else text(seen_by[file], file)
        if said is not None:
            rows = source_lines(said, lines, file, cells[file])
            found.update({f"{file}:{line}": seen for line, seen in rows.items()})
    return found


def as_printed(printed: Iterable[tuple[str, int, str]]) -> dict[str, SourceLine]:
    """The lines of ``(file, line, text)``, as a traceback has them, where the file of that name is here and still says so at that line."""
    found = {}
    for file, line, code in printed:
        rows = (whole(file) or "").splitlines() if code.strip() else []
        if 1 <= line <= len(rows) and rows[line - 1].strip() == code.strip():
            found[f"{file}:{line}"] = SourceLine(code.strip()[:LONGEST], excerpt=excerpt(rows, line, file))
    return found


def whole(file: str) -> str | None:
    """The text of a plain file that this user may read; None of anything else (a pipe would never end), or of one that is too large."""
    try:
        about = os.stat(file)
        if not stat.S_ISREG(about.st_mode) or about.st_size > LARGEST_BYTES:
            return None
        with open(file, encoding="utf-8", errors="replace") as f:
            return f.read()
    except (OSError, ValueError):  # a name with a NUL in it
        return None


def excerpt(rows: Sequence[str], line: int, file: str, cell: int | None = None) -> Excerpt:
    """Line `line` (from 1, and there) of a file with the `rows`, and `AROUND` before and after it, but no blank ones at the ends."""
    first = max(1, line - AROUND)
    shown = {n: row.expandtabs(4).rstrip() for n, row in enumerate(rows[first - 1 : line + AROUND], first)}
    while shown and not (shown[max(shown)] and shown[min(shown)]):
        del shown[max(shown) if not shown[max(shown)] else min(shown)]
    cut = min((len(row) - len(row.lstrip()) for row in shown.values() if row), default=0)
    lines = tuple(row[cut : cut + LONGEST] for row in shown.values())
    return Excerpt(file, line, min(shown, default=line), lines, cell)


def text_of(pid: int, file: str) -> str | None:
    """The file as process `pid` sees it, which may live in another mount namespace. A relative name, as Python before 3.9 has it of the
    script that it was given, is looked for in its current directory.
    """
    process = procfs.stat(pid)
    start = f"/proc/{pid}/root" if file.startswith("/") else f"/proc/{pid}/cwd/"
    try:
        with open(start + file, encoding="utf-8", errors="replace") as f:
            about = os.fstat(f.fileno())
            if (
                process is None
                or about.st_size > LARGEST_BYTES
                or about.st_mtime > time.time() - procfs.running_s(process) + TICKS_S
            ):
                return None
            return f.read()
    except (OSError, ValueError):  # a name with a NUL in it, as a look of py-spy's that was torn has it
        return None


def source_lines(text: str, lines: Iterable[int], file: str = "", cell: int | None = None) -> dict[int, SourceLine]:
    """What `lines` (counted from 1) of the source of `file` (the notebook's `cell`) say. A text that is no Python gives the words alone."""
    rows = text.splitlines()
    tree = parsed(text)
    found = {}
    for line in lines:
        if 1 <= line <= len(rows):
            takes, within = ([], []) if tree is None else _locks(tree, line)
            said = rows[line - 1].strip()[:LONGEST]
            found[line] = SourceLine(said, tuple(takes), tuple(within), excerpt(rows, line, file, cell))
    return found


def _locks(tree: ast.AST, line: int) -> tuple[list[str], list[str]]:
    """What `line` takes, and what is held there: the ``with`` blocks around it and the ``acquire()`` before it, of its own function."""
    function: ast.AST = tree
    for node in around(tree, line):
        if isinstance(node, FUNCTIONS):
            function = node
    takes: list[str] = []
    within: list[str] = []
    for node in own(function):
        if isinstance(node, (ast.With, ast.AsyncWith)):
            names = [ast.unparse(item.context_expr) for item in node.items]
            if node.body[0].lineno <= line <= (node.end_lineno or node.lineno) and line > node.lineno:
                within += names
            elif node.lineno <= line < node.body[0].lineno:
                takes += names
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "acquire":
            name = ast.unparse(node.func.value)
            if node.lineno <= line <= (node.end_lineno or node.lineno):
                takes.append(name)
            elif node.lineno < line and not _released(function, name, node.lineno, line):
                within.append(name)
    return takes, within


def _released(function: ast.AST, name: str, after: int, before: int) -> bool:
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "release"
        and after < node.lineno < before
        and ast.unparse(node.func.value) == name
        for node in own(function)
    )
