"""One source file as a syntax tree, and what of it surrounds a line. Nothing is executed."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TypeGuard

__all__ = [
    "FUNCTIONS",
    "Function",
    "Source",
    "around",
    "assigned",
    "binds",
    "called",
    "last_name",
    "own",
    "parameters",
    "parsed",
    "targets",
]

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

    def within(self, node: ast.AST) -> Iterator[ast.AST]:
        """What goes round `node` in its function, from the inside out."""
        while node in self.parents and not isinstance(node, (*FUNCTIONS, ast.Lambda)):
            node = self.parents[node]
            yield node

    def tests(self, node: ast.AST) -> Iterator[ast.expr]:
        """The conditions under which `node` is reached within its function."""
        for outer in self.within(node):
            if isinstance(outer, (ast.If, ast.IfExp, ast.While)) and node is not outer.test:
                yield outer.test
            node = outer

    def conditions(self, node: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
        """The tests of every ``if`` by which `node` is reached, and what they come to then: of those around it, and of those before it that
        leave its block.
        """
        for outer in self.within(node):
            for block in (getattr(outer, name, None) for name in ("body", "orelse", "finalbody")):
                if isinstance(block, list) and node in block:
                    yield from ((one.test, False) for one in block[: block.index(node)] if _leaves(one))
                    if isinstance(outer, ast.If):
                        yield outer.test, block is outer.body
            node = outer

    def loops(self, node: ast.AST) -> list[ast.While | ast.For]:
        """Those around `node` in its function, the innermost first."""
        return [outer for outer in self.within(node) if isinstance(outer, (ast.While, ast.For))]

    @cached_property
    def _functions(self) -> dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]]:
        found: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, FUNCTIONS):
                found.setdefault(node.name, []).append(node)
        return found

    def functions(self, name: str) -> Sequence[ast.FunctionDef | ast.AsyncFunctionDef]:
        """All of that name, methods too."""
        return self._functions.get(name, ())

    @cached_property
    def _constants(self) -> dict[str, ast.expr]:
        """A name that is given several values, or that a function may change, is none."""
        given = [(to.id, value) for node in self.tree.body for to, value in assigned(node) if isinstance(to, ast.Name)]
        changed = {name for node in ast.walk(self.tree) if isinstance(node, ast.Global) for name in node.names}
        counts = Counter(name for name, _ in given)
        return {n: v for n, v in given if counts[n] == 1 and n not in changed and _is_literal(v)}

    def constant(self, name: str) -> ast.expr | None:
        """What a variable of the module always is: a number, a text, or several in a tuple."""
        return self._constants.get(name)

    def class_of(self, function: Function) -> str:
        """The name of the class that `function` is a method of; empty of any other."""
        outer = self.parents.get(function)
        return outer.name if isinstance(outer, ast.ClassDef) else ""

    @cached_property
    def _naming(self) -> dict[str, list[ast.stmt | ast.Call]]:
        found: dict[str, list[ast.stmt | ast.Call]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.stmt, ast.Call)):
                for name in dict.fromkeys(_attributes_of(node)):
                    found.setdefault(name, []).append(node)
        return found

    def naming(self, attribute: str) -> Sequence[ast.stmt | ast.Call]:
        """The statements that set an attribute of that name, or something in it, and the calls of its methods."""
        return self._naming.get(attribute, ())


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


def called(node: ast.AST) -> set[str]:
    """The last names of all that is called in `node`."""
    return {last_name(one.func) for one in ast.walk(node) if isinstance(one, ast.Call)}


def assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """To what a statement assigns what."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if (
                isinstance(target, ast.Tuple)
                and isinstance(node.value, ast.Tuple)
                and len(target.elts) == len(node.value.elts)
            ):
                yield from zip(target.elts, node.value.elts, strict=True)
            else:
                yield target, node.value
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, (ast.With, ast.AsyncWith)):
        yield from ((item.optional_vars, item.context_expr) for item in node.items if item.optional_vars is not None)


def targets(target: ast.expr) -> Iterator[ast.expr]:
    """The single ones of what is unpacked to."""
    if isinstance(target, (ast.Tuple, ast.List)):
        for part in target.elts:
            yield from targets(part)
    else:
        yield target.value if isinstance(target, ast.Starred) else target


def binds(target: ast.expr, name: str) -> bool:
    """Whether what is assigned to `target` gives `name` a value."""
    return any(isinstance(t, ast.Name) and t.id == name for t in targets(target))


def parameters(function: ast.AST) -> set[str]:
    """The names of all parameters of a function; of anything else none."""
    if not isinstance(function, FUNCTIONS):
        return set()
    every = function.args
    return {
        a.arg for a in (*every.posonlyargs, *every.args, *every.kwonlyargs, *filter(None, (every.vararg, every.kwarg)))
    }


def _is_literal(node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple):
        return all(map(_is_literal, node.elts))
    return isinstance(node, ast.Constant)


def _leaves(statement: ast.stmt) -> TypeGuard[ast.If]:
    """Whether nothing after it in its block is reached where its condition holds."""
    ends = (ast.Continue, ast.Return, ast.Raise)  # a loop that was left has been round before
    return isinstance(statement, ast.If) and isinstance(statement.body[-1], ends)


def _attributes_of(node: ast.stmt | ast.Call) -> Iterator[str]:
    set_here = [t for to, _ in assigned(node) for t in targets(to)]
    if isinstance(node, ast.AugAssign):
        set_here.append(node.target)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        set_here.append(node.func.value)
    for target in set_here:
        of = target.value if isinstance(target, ast.Subscript) else target
        if isinstance(of, ast.Attribute):
            yield of.attr


def _reach(node: ast.expr) -> tuple[int | None, ...]:
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset
