"""Two places in one function, by its source: whether one pass through it can come to both, and by which names they call."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from ..model import CallSite, CallSites, Fork, ForkAt, Frame
from .syntax import Source, last_name
from .whose import bare

__all__ = ["Parting", "fork", "parting", "partings"]

Number = int | float
_HOLDS: dict[type[ast.cmpop], Callable[[Number, Number], bool]] = {
    ast.Eq: lambda a, b: a == b,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
}
_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.NotEq: ast.Eq, ast.IsNot: ast.Is, ast.NotIn: ast.In}


@dataclass(frozen=True)
class Parting:
    """Where two stacks part, seen from outside: the first frames that differ, and the functions that are called there, ``""`` of none.

    ``one_function``: these are two lines of functions of one name in one file, mostly of the same one. Else another function was called at
    the same line, or nothing is in common.
    """

    first: Frame
    second: Frame
    calls: tuple[str, str]
    one_function: bool

    @property
    def at(self) -> ForkAt:
        low, high = sorted((self.first.line, self.second.line))
        return self.first.file, low, high


def parting(first: CallSite, second: CallSite) -> Parting | None:
    """None where one stack goes on where the other one ends, or both are the same."""
    one, other = list(reversed(first.frames)), list(reversed(second.frames))
    for i, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            calls = (_called(one, i), _called(other, i))
            return Parting(a, b, calls, one_function=(a.file, a.function) == (b.file, b.function))
    return None


def _called(frames: Sequence[Frame], i: int) -> str:
    return bare(frames[i + 1].function) if i + 1 < len(frames) else ""


def partings(ranks: Iterable[CallSites]) -> list[Parting]:
    """Where the stacks of calls with the same number of a group part, each pair of places once. Linear in the number of calls."""
    of_site: dict[CallSite, int] = {}
    issued: dict[tuple[str, int], set[int]] = {}
    for rank in ranks:
        numbers = [of_site.setdefault(site, len(of_site)) for site in rank.sites]
        for group, calls in rank.at.items():
            for number, site in calls.items():
                issued.setdefault((group, number), set()).add(numbers[site])
    sites = list(of_site)
    together = {frozenset(found) for found in issued.values() if len(found) > 1}
    pairs = {pair for found in together for pair in combinations(sorted(found), 2)}
    found = (parting(sites[a], sites[b]) for a, b in sorted(pairs))
    return [one for one in dict.fromkeys(found) if one is not None]


def fork(source: Source, parts: Parting) -> Fork | None:
    """What the source of the function says of its two lines. None where it does not tell: they are of one statement, which may choose
    between them, or of two methods of one name, of which a program may have called either.
    """
    _, low, high = parts.at
    first, second = source.statement(low), source.statement(high)
    if first is None or second is None or first is second or source.function(low) is not source.function(high):
        return None
    apart = _exclude_each_other(source, first, second) or _in_other_arms(source, first, second)
    called = parts.calls[0] if parts.calls[0] == parts.calls[1] else ""
    return Fork(apart, _names(_call(first, called), _call(second, called)) if called else None)


# --- can one pass come to both? -------------------------------------------------------------------------------------


def _exclude_each_other(source: Source, first: ast.stmt, second: ast.stmt) -> bool:
    """Whether the conditions under which they are reached never hold together, were they asked at the same moment."""
    others = [atom for test, value in source.conditions(second) for atom in _atoms(test, value)]
    return any(a.excludes(b) for test, value in source.conditions(first) for a in _atoms(test, value) for b in others)


def _in_other_arms(source: Source, first: ast.stmt, second: ast.stmt) -> bool:
    """Of a ``try`` and its handlers, or of a ``match``."""
    ways = {id(outer): (outer, arm) for outer, arm in _arms(source, first)}
    for outer, arm in _arms(source, second):
        if id(outer) in ways and ways[id(outer)][1] != arm:
            both = {ways[id(outer)][1], arm}
            return isinstance(outer, ast.Match) or any(one.startswith("handler") for one in both)
    return False


def _arms(source: Source, node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """The ``try`` and ``match`` statements around `node`, each with the part of it that `node` is in."""
    inner = node
    for outer in source.within(node):
        if isinstance(outer, ast.Try):
            yield outer, f"handler {id(inner)}" if isinstance(inner, ast.ExceptHandler) else "body"
        elif isinstance(outer, ast.Match):
            yield outer, f"case {id(inner)}"
        inner = outer


@dataclass(frozen=True)
class _Atom:
    """A condition without ``not``, ``and`` and ``or``, and what it comes to. ``limit``: what it compares with, where that is a constant."""

    said: str
    value: bool
    of: str = ""
    compares: type[ast.cmpop] | None = None
    limit: object = None

    def excludes(self, other: _Atom) -> bool:
        if self.said == other.said:
            return self.value is not other.value
        if not self.of or self.of != other.of or self.compares is None or other.compares is None:
            return False
        if isinstance(self.limit, (int, float)) and isinstance(other.limit, (int, float)):
            tried = [limit + d for limit in (self.limit, other.limit) for d in (-0.5, 0, 0.5)]
            return not any(self._holds(n) and other._holds(n) for n in tried)
        both_equal = self.compares is other.compares is ast.Eq and self.value and other.value
        return both_equal and self.limit != other.limit

    def _holds(self, number: Number) -> bool:
        if self.compares is None or not isinstance(self.limit, (int, float)):
            return True
        return _HOLDS[self.compares](number, self.limit) is self.value


def _atoms(test: ast.expr, value: bool) -> Iterator[_Atom]:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _atoms(test.operand, not value)
    elif isinstance(test, ast.Compare) and len(test.ops) == 1:
        yield _compared(test, value)
    else:
        yield _Atom(ast.dump(test), value)
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) is value:
        for part in test.values:  # all of them hold, or none does
            yield from _atoms(part, value)


def _compared(test: ast.Compare, value: bool) -> _Atom:
    kind, right = type(test.ops[0]), test.comparators[0]
    if kind in _OPPOSITE:
        kind, value = _OPPOSITE[kind], not value
    said = f"{ast.dump(test.left)} {kind.__name__} {ast.dump(right)}"
    if kind in _HOLDS and isinstance(right, ast.Constant):
        return _Atom(said, value, ast.dump(test.left), kind, right.value)
    return _Atom(said, value)


# --- by which names do they call? -----------------------------------------------------------------------------------


def _names(first: ast.Call | None, second: ast.Call | None) -> tuple[str, str] | None:
    """The first texts in which the two calls differ."""
    if first is None or second is None:
        return None
    texts, others = _texts(first), _texts(second)
    return next(((texts[k], others[k]) for k in texts if k in others and texts[k] != others[k]), None)


def _call(statement: ast.stmt, name: str) -> ast.Call | None:
    """The one call of that name in a simple statement; None where there are several."""
    if hasattr(statement, "body"):
        return None
    calls = [n for n in ast.walk(statement) if isinstance(n, ast.Call) and last_name(n.func) == name]
    return calls[0] if len(calls) == 1 else None


def _texts(call: ast.Call) -> dict[int | str, str]:
    given: list[tuple[int | str, ast.expr]] = [*enumerate(call.args)]
    given += [(k.arg or "**", k.value) for k in call.keywords]
    return {key: node.value for key, node in given if isinstance(node, ast.Constant) and isinstance(node.value, str)}
