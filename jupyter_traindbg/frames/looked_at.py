"""What a line that waits looks at: the variables in it, and in the condition of the loop that goes round it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..model import NOTHING, Scope, Value, Variable
from .evaluating import evaluate
from .syntax import Source

__all__ = ["looked_at"]

MOST = 6
_TELLS_NOTHING = ("function", "module", "other", "object", "hidden", "store", "work", "exchange")


def looked_at(scope: Scope, source: Source) -> tuple[Variable, ...]:
    """The variables that decide when the line of `scope` goes on, as far as their values are known and tell anything: those of the loop's
    condition, then those of the line, then those of the rest of the loop.
    """
    line = scope.frame.line
    loop, statement = source.loop(line), source.statement(line)
    parts: list[ast.AST] = []
    if isinstance(loop, ast.While):
        parts.append(loop.test)
    parts += [] if statement is None else _heads(statement)
    if isinstance(loop, ast.While):
        parts += loop.body
    found: dict[str, Value] = {}
    for part in parts:
        for node in _names(part):
            name = ast.unparse(node)
            value = evaluate(node, scope)
            if value is not None and name not in found and _tells(value):
                found[name] = value
    return tuple(Variable(name, scope.frame.function, scope.frame, value) for name, value in list(found.items())[:MOST])


def _heads(statement: ast.stmt) -> list[ast.AST]:
    """A statement without the statements inside it."""
    if not hasattr(statement, "body"):
        return [statement]
    return [node for node in ast.iter_child_nodes(statement) if isinstance(node, (ast.expr, ast.withitem))]


def _names(node: ast.AST) -> Iterator[ast.expr]:
    """The longest names, ``self.pending`` and not ``self``, that are read in `node`; of ``self.queue.get()`` ``self.queue``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield from _names(node.func.value)
        for child in (*node.args, *node.keywords):
            yield from _names(child)
    elif isinstance(node, (ast.Name, ast.Attribute)) and _is_plain(node):
        if isinstance(node.ctx, ast.Load):
            yield node
    else:
        for child in ast.iter_child_nodes(node):
            yield from _names(child)


def _is_plain(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _tells(value: Value) -> bool:
    if value.kind == "items":
        return not value.parts or any(_tells(part) for part in value.parts.values())
    return (
        value == NOTHING
        or value.kind not in _TELLS_NOTHING
        or bool(value.words and value.kind == "other" and "," in value.words)
    )
