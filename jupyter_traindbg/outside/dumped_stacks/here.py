"""The source behind dumped frames, where the files are on this machine, and certainly those that ran; else what the dump quotes of it.

A file counts as the same if it was there before the dump, every frame of all dumps lies in the function that it names, calls what the
dump says that it called, and what is quoted stands where it is quoted; and if the interpreter that ran it is here. What does not fit is
not used.
"""

from __future__ import annotations

import ast
import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ...frames.whose import bare
from ...model import Block, CallSites, DumpedProcess, Frame, SourceLine
from .. import blocks, sources

__all__ = ["Found", "find"]

MOST_FILES = 32
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_HOLDS_A_CALL = (
    ast.Call,
    ast.With,
    ast.AsyncWith,
    ast.For,
    ast.AsyncFor,
    ast.Subscript,
    ast.Attribute,
    ast.BinOp,
    ast.Compare,
    ast.Await,
)


@dataclasses.dataclass(frozen=True)
class Found:
    """``texts``: the files that are here. ``lines``: by ``"file:line"``, also those that are only quoted. ``blocks``: the loops and
    branches of the files.
    """

    texts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    lines: Mapping[str, SourceLine] = dataclasses.field(default_factory=dict)
    blocks: Mapping[str, Sequence[Block]] = dataclasses.field(default_factory=dict)


def find(looks: Sequence[DumpedProcess], written_s: float, issued: Iterable[CallSites] = ()) -> Found:
    """What is known of the source of stacks, and of those that `issued` collectives; ``written_s``: when the oldest dump was written."""
    quotes = {place: code for one in looks for place, code in one.quotes.items()}
    lines = {place: _quoted(code) for place, code in quotes.items()}
    stacks = [thread.frames for one in looks for thread in one.stacks.threads]
    stacks += [site.frames for one in issued for site in one.sites]
    texts: dict[str, str] = {}
    for file, seen in list(_by_file(stacks).items())[:MOST_FILES] if _at_home(looks) else ():
        text = _same(file, seen, quotes, written_s)
        if text is not None:
            texts[file] = text
            rows = sources.source_lines(text, {frame.line for frame, _ in seen}, file)
            lines |= {f"{file}:{line}": said for line, said in rows.items()}
    return Found(texts, lines, {file: blocks.blocks(text) for file, text in texts.items()})


def _quoted(code: str) -> SourceLine:
    """A line that only the dump has: what it takes is in it, and nothing is known of what lies around."""
    whole = sources.source_lines(f"{code}\n    pass" if code.endswith(":") else code, [1]).get(1)
    return SourceLine(code) if whole is None else dataclasses.replace(whole, text=code, excerpt=None)


def _at_home(looks: Sequence[DumpedProcess]) -> bool:
    """Whether the interpreters that are told are on this machine."""
    return all(os.path.exists(program) for program in {one.interpreter for one in looks} if program)


def _by_file(stacks: Iterable[Sequence[Frame]]) -> dict[str, list[tuple[Frame, str]]]:
    """The user's frames by file, each with the function that it has called; empty where that is no plain one of the user's."""
    found: dict[str, list[tuple[Frame, str]]] = {}
    for frames in stacks:
        inner: Frame | None = None
        for frame in frames:
            if not frame.library and frame.file.startswith("/"):
                found.setdefault(frame.file, []).append((frame, _called(inner)))
            inner = frame
    return found


def _called(inner: Frame | None) -> str:
    if inner is None or inner.library:
        return ""
    name = bare(inner.function)
    return "" if name.startswith(("__", "<")) else name


def _same(file: str, seen: Sequence[tuple[Frame, str]], quotes: Mapping[str, str], written_s: float) -> str | None:
    text = sources.whole(file)
    if text is None or os.stat(file).st_mtime > written_s:
        return None
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError, SystemError):
        return None
    rows = text.splitlines()
    fits = all(_fits(tree, rows, frame, called, quotes) for frame, called in set(seen))
    sure = any(bare(frame.function) != "<module>" for frame, _ in seen) or any(
        f"{f.file}:{f.line}" in quotes for f, _ in seen
    )
    return text if fits and sure else None


def _fits(tree: ast.AST, rows: Sequence[str], frame: Frame, called: str, quotes: Mapping[str, str]) -> bool:
    if not 1 <= frame.line <= len(rows):
        return False
    quote = quotes.get(f"{frame.file}:{frame.line}")
    if quote is not None and rows[frame.line - 1].strip() != quote.strip():
        return False
    name = bare(frame.function)
    if not name.startswith("<") and name not in {f.name for f in _around(tree, frame.line)}:
        return False
    spans = [
        n
        for n in ast.walk(tree)
        if isinstance(n, _HOLDS_A_CALL) and n.lineno <= frame.line <= (n.end_lineno or n.lineno)
    ]
    if not spans and rows[frame.line - 1].strip():
        return not called
    return not called or any(
        called in row for row in rows[frame.line - 1 : max((n.end_lineno or n.lineno) for n in spans)]
    )


def _around(tree: ast.AST, line: int) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTIONS) and node.lineno <= line <= (node.end_lineno or node.lineno):
            yield node
