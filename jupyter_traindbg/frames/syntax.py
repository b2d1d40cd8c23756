"""One source file as a syntax tree, and what of it surrounds a line. Nothing is executed."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cached_property

__all__ = ["FUNCTIONS", "Function", "Source", "around", "last_name", "own", "parsed"]

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module
PARSE_TRIES = 5


class Source:
    """A file that could be parsed."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree

    def function(self, line: int) -> Function:
        """The innermost function around `line`; the module where there is none."""
        found: Function = self.tree
        for node in around(self.tree, line):
            if isinstance(node, FUNCTIONS):
                found = node
        return found

    def statement(self, line: int) -> ast.stmt | None:
        """The innermost one that `line` is in."""
        found = None
        for node in around(self.tree, line):
            if isinstance(node, ast.stmt):
                found = node
        return found

    def loop(self, line: int) -> ast.While | ast.For | None:
        """The innermost loop around `line` within its function."""
        found = None
        for node in around(self.tree, line):
            if isinstance(node, (ast.While, ast.For)):
                found = node
            elif isinstance(node, FUNCTIONS):
                found = None
        return found

    def call(self, line: int, reach: Sequence[int] | None, names: Sequence[str]) -> ast.Call | None:
        """The call that is under way: the one that reaches just so far, or, where that is not known, the one at `line` that calls something
        with one of `names`, if there is one only.
        """
        if reach is not None:
            first = reach[0]
            calls = [n for n in around(self.tree, first) if isinstance(n, ast.Call)]
            return next((c for c in calls if _reach(c) == tuple(reach)), None)
        statement = self.statement(line)
        inside = [n for n in ast.walk(statement) if isinstance(n, ast.Call)] if statement is not None else []
        named = [c for c in inside if last_name(c.func) in names and c.lineno <= line <= (c.end_lineno or c.lineno)]
        return named[0] if len(named) == 1 else None

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """What each node is directly in."""
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def tests(self, node: ast.AST) -> Iterator[ast.expr]:
        """The conditions under which `node` is reached within its function."""
        while node in self.parents and not isinstance(node, (*FUNCTIONS, ast.Lambda)):
            outer = self.parents[node]
            if isinstance(outer, (ast.If, ast.IfExp, ast.While)) and node is not outer.test:
                yield outer.test
            node = outer


def parsed(text: str) -> ast.Module | None:
    """None for what is no Python. CPython 3.11 counts the depth of a parse for all threads together, and complains where two of them parse
    at once (python/cpython issue 106905): that says nothing of the text.
    """
    for _ in range(PARSE_TRIES):
        try:
            return ast.parse(text)
        except SystemError:
            continue
        except (SyntaxError, ValueError, RecursionError):
            return None
    return None


def around(tree: ast.AST, line: int) -> Iterator[ast.AST]:
    """The nodes that cover `line`, from the outside in."""
    for node in ast.iter_child_nodes(tree):
        begins, ends = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
        if begins is None or begins <= line <= (ends or begins):
            yield node
            yield from around(node, line)


def own(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions and classes inside it, in the order of the source."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
            yield node
            yield from own(node)


def last_name(node: ast.AST) -> str:
    """``isend`` of ``dist.isend``; empty where it is no name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _reach(node: ast.expr) -> tuple[int | None, ...]:
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset
