"""What an expression of a source file comes to, by the variables that an agent has told. Nothing is executed: what a call comes to is known
where somebody has read that from the source.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..model import NOTHING, Key, Plain, Scope, Value

__all__ = ["Names", "evaluate", "key_of", "keys_words", "plain_of", "truth"]

_COMPUTED: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitXor: operator.xor,
}
_COMPARED: Mapping[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
LARGEST = 2**31


@dataclass(frozen=True)
class Names:
    """What the names in an expression are, and what its calls come to."""

    value: Callable[[str], Value | None]
    called: Callable[[ast.Call], Value | None]


def evaluate(node: ast.expr, scope: Scope | Names) -> Value | None:  # noqa: PLR0911 - one line a kind of expression
    """The value of `node` in `scope`; None where that is not known."""
    if isinstance(node, ast.Constant):
        return _plain(node.value) if isinstance(node.value, (int, float, str, bool, type(None))) else None
    if isinstance(node, ast.Name):
        return scope.value(node.id)
    if isinstance(node, ast.Attribute):
        return _part(evaluate(node.value, scope), node.attr)
    if isinstance(node, ast.Subscript):
        return _part(evaluate(node.value, scope), key_of(evaluate(node.slice, scope)))
    if isinstance(node, ast.BinOp):
        return _computed(node, scope)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = plain_of(evaluate(node.operand, scope))
        return _plain(-number) if isinstance(number, int) else None
    if isinstance(node, (ast.List, ast.Tuple)):
        parts = [evaluate(part, scope) for part in node.elts]
        known: dict[Key, Value] = {i: part for i, part in enumerate(parts) if part is not None}
        name = "tuple" if isinstance(node, ast.Tuple) else "list"
        return Value("items", name, parts=known, size=len(parts)) if len(known) == len(parts) else None
    if isinstance(node, ast.JoinedStr):
        return _joined(node, scope)
    if isinstance(node, ast.IfExp):
        decided = truth(node.test, scope)
        return None if decided is None else evaluate(node.body if decided else node.orelse, scope)
    return _called(node, scope) if isinstance(node, ast.Call) else None


def truth(node: ast.expr, scope: Scope | Names) -> bool | None:
    """Whether a condition holds; None where that is not known."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = truth(node.operand, scope)
        return None if inner is None else not inner
    if isinstance(node, ast.BoolOp):
        decides = isinstance(node.op, ast.Or)
        held = {truth(part, scope) for part in node.values}
        return decides if decides in held else None if None in held else not decides
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _compared(node, scope)
    value = evaluate(node, scope)
    if value is None:
        return None
    if value.kind == "plain":
        return bool(value.plain)
    return bool(value.size) if value.kind in ("items", "pairs") else None


def _compared(node: ast.Compare, scope: Scope | Names) -> bool | None:
    one, other = evaluate(node.left, scope), evaluate(node.comparators[0], scope)
    if isinstance(node.ops[0], (ast.Is, ast.IsNot)) and other == NOTHING and one is not None:
        return (one == NOTHING) == isinstance(node.ops[0], ast.Is)
    left, right, compare = plain_of(one), plain_of(other), _COMPARED.get(type(node.ops[0]))
    if isinstance(left, str) and isinstance(right, str) and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
        return (left == right) == isinstance(node.ops[0], ast.Eq)
    return compare(left, right) if compare and isinstance(left, int) and isinstance(right, int) else None


def plain_of(value: Value | None) -> Plain:
    """A small value itself; None, too, where it is no such or not known."""
    return value.plain if value is not None and value.kind == "plain" else None


def key_of(value: Value | None) -> Key | None:
    """What is under which key: a small value, or some in a tuple."""
    if value is not None and value.kind == "items" and value.type == "tuple":
        parts = [key_of(part) for part in value.parts.values()]
        known = tuple(part for part in parts if isinstance(part, (str, int)))
        return known if len(known) == value.size else None
    found = plain_of(value)
    return found if isinstance(found, (str, int)) else None


def keys_words(value: Value | None) -> str:
    """``epoch-17``, ``a, b``; empty where they are not known."""
    parts = list(value.parts.values()) if value is not None and value.kind == "items" else [value]
    words = [part.plain for part in parts if part is not None and isinstance(part.plain, str)]
    return ", ".join(words) if len(words) == len(parts) else ""


def _plain(value: Plain) -> Value:
    return Value("plain", type(value).__name__, plain=value)


def _part(value: Value | None, key: Key | None) -> Value | None:
    if value is None or key is None:
        return None
    if value.kind == "items" and isinstance(key, int) and key < 0:
        key += value.size or 0
    return value.parts.get(key)


def _called(node: ast.Call, scope: Scope | Names) -> Value | None:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name in ("len", "int") and len(node.args) == 1:
        given = evaluate(node.args[0], scope)
        found = None if given is None else given.size if name == "len" else plain_of(given)
        return _plain(found) if isinstance(found, int) else None
    if isinstance(node.func, ast.Attribute) and node.func.attr == "index" and len(node.args) == 1:
        return _index(evaluate(node.func.value, scope), evaluate(node.args[0], scope))
    return scope.called(node) if isinstance(scope, Names) else None


def _index(held: Value | None, value: Value | None) -> Value | None:
    parts = held.parts if held is not None and held.kind == "items" else {}
    found = next((at for at, part in parts.items() if part == value), None)
    return _plain(found) if isinstance(found, int) and value is not None and value.kind == "plain" else None


def _computed(node: ast.BinOp, scope: Scope | Names) -> Value | None:
    one, other = plain_of(evaluate(node.left, scope)), plain_of(evaluate(node.right, scope))
    if isinstance(one, str) and isinstance(other, str) and isinstance(node.op, ast.Add):
        return _plain(one + other)
    compute = _COMPUTED.get(type(node.op))
    if compute is None or not isinstance(one, int) or not isinstance(other, int) or max(abs(one), abs(other)) > LARGEST:
        return None
    try:
        return _plain(compute(one, other))
    except ZeroDivisionError:
        return None


def _joined(node: ast.JoinedStr, scope: Scope | Names) -> Value | None:
    """``f"epoch-{epoch}"`` of plain numbers and texts."""
    words = ""
    for part in node.values:
        inner = part.value if isinstance(part, ast.FormattedValue) else part
        value = evaluate(inner, scope)
        is_bare = not isinstance(part, ast.FormattedValue) or (part.format_spec is None and part.conversion == -1)
        if value is None or value.kind != "plain" or not is_bare:
            return None
        words += str(value.plain)
    return _plain(words)
