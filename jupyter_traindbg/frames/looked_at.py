"""What a line that waits looks at: the variables in it, and in the condition of the loop that goes round it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from ..model import NOTHING, Scope, Value, Variable
from .evaluating import evaluate, keys_words, plain_of
from .syntax import Source, last_name

__all__ = ["locked", "looked_at", "names"]

MOST = 6
_LOCKS = ("flock", "lockf")
_TELLS_NOTHING = ("function", "module", "other", "object", "hidden", "store", "work", "exchange")


def looked_at(scope: Scope, source: Source) -> tuple[Variable, ...]:
    """The variables that decide when the line of `scope` goes on, as far as their values are known and tell anything: those of the loop's
    condition, then those of the line, then those of the rest of the loop.
    """
    found: dict[str, Value] = {}
    for part in _parts(scope, source):
        for node in names(part):
            name = ast.unparse(node)
            value = evaluate(node, scope)
            if value is not None and name not in found and _tells(value):
                found[name] = value
        found |= {name: value for name, value in _stores(part, scope) if name not in found}
    return tuple(Variable(name, scope.frame.function, scope.frame, value) for name, value in list(found.items())[:MOST])


def locked(scope: Scope, source: Source) -> tuple[int, ...]:
    """The numbers of the open files that the line, or the loop round it, tries to lock."""
    calls = (node for part in _parts(scope, source) for node in ast.walk(part) if isinstance(node, ast.Call))
    held = (plain_of(evaluate(call.args[0], scope)) for call in calls if last_name(call.func) in _LOCKS and call.args)
    return tuple(dict.fromkeys(number for number in held if type(number) is int))


def _parts(scope: Scope, source: Source) -> list[ast.AST]:
    line = scope.frame.line
    loop, statement = source.loop(line), source.statement(line)
    parts: list[ast.AST] = []
    if isinstance(loop, ast.While):
        parts.append(loop.test)
    parts += [] if statement is None else _heads(statement)
    if isinstance(loop, ast.While):
        parts += loop.body
    return parts


def _stores(part: ast.AST, scope: Scope) -> Iterator[tuple[str, Value]]:
    """The stores of process groups that are asked there, and for which keys."""
    for call in (node for node in ast.walk(part) if isinstance(node, ast.Call)):
        method = call.func if isinstance(call.func, ast.Attribute) else None
        on = evaluate(method.value, scope) if method is not None else None
        if method is not None and on is not None and on.kind == "store":
            keys = keys_words(evaluate(call.args[0], scope)) if call.args else ""
            yield ast.unparse(method.value), replace(on, words=f"{on.type}, {keys!r}" if keys else on.type)


def _heads(statement: ast.stmt) -> list[ast.AST]:
    """A statement without the statements inside it."""
    if not hasattr(statement, "body"):
        return [statement]
    return [node for node in ast.iter_child_nodes(statement) if isinstance(node, (ast.expr, ast.withitem))]


def names(node: ast.AST) -> Iterator[ast.expr]:
    """The longest names, ``self.pending`` and not ``self``, that are read in `node`; of ``self.queue.get()`` ``self.queue``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield from names(node.func.value)
        for child in (*node.args, *node.keywords):
            yield from names(child)
    elif isinstance(node, (ast.Name, ast.Attribute)) and _is_plain(node):
        if isinstance(node.ctx, ast.Load):
            yield node
    else:
        for child in ast.iter_child_nodes(node):
            yield from names(child)


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
