"""The small language of a family file's ``when`` and of the braces in its texts.

``when``: ``"seen:bus_error"``, ``"not seen:kernel_says"``, ``"free_bytes < 100 MiB"``, ``"reserved_bytes < 0.5 * total_bytes"``,
``"op == 'ALLREDUCE'"``, and these joined with ``and``, ``or``, ``not``. In a text: ``{free_bytes}``, ``{micro * accumulation * world}``;
``[[ ... ]]`` is left out where something in it is not known. What is not known makes a condition false, and a text unusable; it is
never an error. Python's own parser reads it, and only what is named here is walked: there are no calls, no attributes, no indexing,
and nothing is ever evaluated by Python itself.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from .quantities import UNITS, Quantity, Value

__all__ = ["BadCondition", "Expression", "parse", "render", "wanted"]

_SEEN = re.compile(r"\bseen:([\w.]+)")
_WITH_UNIT = re.compile(
    r"(?<![\w.])(\d+(?:\.\d+)?)\s*(" + "|".join(sorted(UNITS, key=len, reverse=True)) + r")(?![\w%])"
)
_BRACES = re.compile(r"\{([a-z_][\w .+*/%()-]*)\}")
"""A formula. Code in a text keeps its braces: what has quotes, colons or commas in it is none."""
_OPTIONAL = re.compile(r"\[\[(.*?)\]\]", re.DOTALL)

_ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_TEXT_COMPARISONS: dict[type[ast.cmpop], Callable[[str, str], bool]] = {
    ast.Eq: lambda a, b: a.lower() == b.lower(),
    ast.NotEq: lambda a, b: a.lower() != b.lower(),
    ast.In: lambda a, b: a.lower() in b.lower(),
    ast.NotIn: lambda a, b: a.lower() not in b.lower(),
}


class BadCondition(ValueError):
    """What was written is not in the language; the message says what is, in one line."""


class Unknown(LookupError):
    """A name that this log gives no value for."""


@dataclass(frozen=True)
class Expression:
    """A parsed condition or formula."""

    text: str
    tree: ast.expr

    @property
    def names(self) -> frozenset[str]:
        """The values it asks for."""
        functions = {n.func.id for n in ast.walk(self.tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
        return frozenset(n.id for n in ast.walk(self.tree) if isinstance(n, ast.Name)) - functions

    @property
    def signals(self) -> frozenset[str]:
        """The signals it asks for, ``ID`` or ``CODE.ID``."""
        calls = (n for n in ast.walk(self.tree) if isinstance(n, ast.Call))
        return frozenset(str(a.value) for c in calls for a in c.args if isinstance(a, ast.Constant))

    def holds(self, values: Mapping[str, Value], seen: Collection[str] = ()) -> bool:
        """Whether it is true of these values; False where one is missing."""
        try:
            return bool(_truth(self.tree, values, seen))
        except (Unknown, ZeroDivisionError):
            return False

    def value(self, values: Mapping[str, Value]) -> Value:
        """The number or text it stands for. Raises `Unknown`."""
        return _value(self.tree, values)


def parse(text: str) -> Expression:
    """Read `text`. Raises `BadCondition`, which says what is not allowed."""
    python = _WITH_UNIT.sub(lambda m: repr(float(m[1]) * UNITS[m[2]][0]), _SEEN.sub(r'seen("\1")', text))
    try:
        tree = ast.parse(python.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadCondition(
            f"{text!r} is no condition ({error.__class__.__name__}); write for example 'free_bytes < 100 MiB'"
        ) from None
    for node in ast.walk(tree):
        _allow(node, text)
    return Expression(text, tree)


_PLAIN_NODES = (
    ast.Name,
    ast.Load,
    ast.BinOp,
    ast.BoolOp,
    ast.And,
    ast.Or,
    ast.UnaryOp,
    ast.Not,
    ast.USub,
    ast.Compare,
    *_ARITHMETIC,
    *_COMPARISONS,
    *_TEXT_COMPARISONS,
)


def _allow(node: ast.AST, text: str) -> None:
    if isinstance(node, _PLAIN_NODES):
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float, str)):
        return
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "seen" and not node.keywords:
        return
    what = type(node).__name__
    raise BadCondition(
        f"{text!r} has a {what}; allowed are names, numbers with units, 'texts', + - * / // %, comparisons, in, and, or, not, seen:ID"
    )


# --- walking -------------------------------------------------------------------------------------------------------


def _truth(node: ast.expr, values: Mapping[str, Value], seen: Collection[str]) -> bool:
    if isinstance(node, ast.BoolOp):
        each = (_truth(n, values, seen) for n in node.values)
        return all(each) if isinstance(node.op, ast.And) else any(each)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not _truth(node.operand, values, seen)
    if isinstance(node, ast.Call):
        return all(isinstance(a, ast.Constant) and a.value in seen for a in node.args)
    if isinstance(node, ast.Compare):
        operands = [_value(n, values) for n in (node.left, *node.comparators)]
        return all(_compare(op, a, b) for op, a, b in zip(node.ops, operands, operands[1:], strict=False))
    value = _value(node, values)
    return bool(value.value if isinstance(value, Quantity) else value)


def _compare(op: ast.cmpop, a: Value, b: Value) -> bool:
    if isinstance(a, Quantity) and isinstance(b, Quantity) and type(op) in _COMPARISONS:
        return _COMPARISONS[type(op)](a.value, b.value)
    if type(op) in _TEXT_COMPARISONS:
        return _TEXT_COMPARISONS[type(op)](str(a), str(b))
    raise Unknown


def _value(node: ast.expr, values: Mapping[str, Value]) -> Value:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else Quantity(float(str(node.value)))
    if isinstance(node, ast.Name):
        if node.id not in values:
            raise Unknown(node.id)
        return values[node.id]
    if isinstance(node, ast.UnaryOp):
        operand = _number(node.operand, values)
        return Quantity(-operand.value, operand.unit)
    if isinstance(node, ast.BinOp):
        a, b = _number(node.left, values), _number(node.right, values)
        return Quantity(_ARITHMETIC[type(node.op)](a.value, b.value), _unit(node.op, a.unit, b.unit))
    raise Unknown


def _number(node: ast.expr, values: Mapping[str, Value]) -> Quantity:
    value = _value(node, values)
    if not isinstance(value, Quantity):
        raise Unknown
    return value


def _unit(op: ast.operator, a: str, b: str) -> str:
    """Of a result: bytes - bytes are bytes, bytes / bytes a ratio, bytes * 3 are bytes."""
    if isinstance(op, (ast.Div, ast.FloorDiv)):
        return "" if a == b else a
    return a or b


# --- texts ---------------------------------------------------------------------------------------------------------


def _formulas(text: str) -> Iterator[Expression]:
    for found in _BRACES.finditer(text):
        yield parse(found[1])


def wanted(text: str) -> frozenset[str]:
    """The names that `text` cannot do without: those in its braces, outside of ``[[optional parts]]``. Raises `BadCondition`."""
    for _ in _formulas(text):
        pass  # the optional parts have to be in the language too
    return frozenset(name for formula in _formulas(_OPTIONAL.sub("", text)) for name in formula.names)


def render(text: str, values: Mapping[str, Value]) -> str | None:
    """`text` with this log's values; parts in ``[[...]]`` are left out where one is missing. None where one is missing elsewhere."""
    pieces = _OPTIONAL.split(
        text
    )  # every second one was in brackets; what a log says is put in once and never read again
    filled = [_filled(piece, values) for piece in pieces]
    if any(piece is None for piece in filled[::2]):
        return None
    return "".join(piece or "" for piece in filled)


def _filled(text: str, values: Mapping[str, Value]) -> str | None:
    try:
        return _BRACES.sub(lambda found: str(parse(found[1]).value(values)), text)
    except (Unknown, ZeroDivisionError):
        return None
