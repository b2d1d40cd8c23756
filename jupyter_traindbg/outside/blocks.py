"""Loops and branches of source files, to tell a rank that has left a loop from one that is still in it. Read, never executed."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from ..frames.awaited import polls_for_works
from ..frames.syntax import parsed
from ..model import Block, Frame
from . import sources

__all__ = ["blocks", "where_ranks_differ"]

MOST_FILES = 16
MOST_WORDS = 80


def where_ranks_differ(
    stacks: Iterable[tuple[int, Sequence[Frame]]], text_of: Callable[[int, str], str | None] = sources.text_of
) -> dict[str, tuple[Block, ...]]:
    """The `blocks` of the user's files in these stacks (a pid and its frames, for each rank), and of those of libraries in which some
    ranks are at different lines of the same function. Parsing costs 1 ms per 100 lines; `MOST_FILES` at most are read.

    `text_of` reads a file for one of those processes; where it knows them by another number than their pid, that stands for it in `stacks`.
    """
    lines: dict[tuple[str, str], set[int]] = {}
    own: dict[str, int] = {}
    seen_by: dict[str, int] = {}
    for pid, frames in stacks:
        for frame in frames:
            lines.setdefault((frame.file, frame.function), set()).add(frame.line)
            seen_by.setdefault(frame.file, pid)
            if not frame.library:
                own.setdefault(frame.file, pid)
    if all(len(at) == 1 for at in lines.values()):
        return {}
    differ = {file: seen_by[file] for (file, _), at in lines.items() if len(at) > 1}
    chosen = list({**own, **differ}.items())[:MOST_FILES]
    texts = ((file, text_of(pid, file)) for file, pid in chosen if not file.startswith("<"))
    return {file: found for file, text in texts if text is not None and (found := blocks(text))}


def blocks(source: str) -> tuple[Block, ...]:
    """Every ``for``, ``while`` and ``if`` of a module, the outer before the inner; empty where it cannot be parsed."""
    tree = parsed(source)
    if tree is None:
        return ()  # of a newer Python, with null bytes, or nested too deep
    return tuple(sorted(_found(tree), key=lambda b: (b.first, -b.last)))


def _found(tree: ast.AST) -> Iterable[Block]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)) and polls_for_works(node):
            continue  # it is a wait, and no loop that ranks leave at different steps
        if isinstance(node, (ast.For, ast.AsyncFor)):
            yield _block("for", node.lineno, node.body, f"{_names(node.target)} in {ast.unparse(node.iter)}")
        elif isinstance(node, ast.While):
            yield _block("while", node.lineno, node.body, ast.unparse(node.test))
        elif isinstance(node, ast.If):
            yield _block("if", node.lineno, node.body, ast.unparse(node.test))


def _names(target: ast.expr) -> str:
    """``i, batch``: as people write it, without the brackets of a tuple."""
    return ", ".join(map(ast.unparse, target.elts)) if isinstance(target, ast.Tuple) else ast.unparse(target)


def _block(kind: Literal["for", "while", "if"], first: int, body: Sequence[ast.stmt], words: str) -> Block:
    last = max(statement.end_lineno or statement.lineno for statement in body)
    return Block(kind, first, last, words if len(words) <= MOST_WORDS else f"{words[: MOST_WORDS - 3]}...")
