"""Where the values of variables come from, by the source: from which rank this is, from counting, or from neither. What has nothing to do
with the rank and is different on one rank all the same may be why that one goes another way.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..model import Origin, Scope, Variable
from .syntax import FUNCTIONS, Function, Source, assigned, binds, last_name, own, parameters, targets

__all__ = ["variables"]

_NOUNS = r"rank|ranks|leader|master|chief|device|host|hostname|pid|peer|seed|stage|shard|partition|worker|port|coord|coords|coordinate"
_ADJECTIVES = r"first|last|main|primary|local|prev|previous|next|above|below|up|down"
_OF_A_RANK = re.compile(rf"(?:^|_)(?:{_NOUNS}|{_ADJECTIVES})(?:_|$|\d)", re.IGNORECASE)
_CONSTANT_OF_A_RANK = re.compile(rf"(?:^|_)(?:{_NOUNS.upper()})(?:_|$|\d)")
"""Names of what differs from rank to rank, or may. ``FIRST_TAG`` is no such."""
_COUNTS = re.compile(
    r"(?:^|_)(?:step|steps|epoch|epochs|iter|iters|iteration|iterations|idx|index|count|counter|seen|done|time|elapsed)(?:_|$|\d)",
    re.IGNORECASE,
)
_TELLS = ("plain", "text", "function", "items", "pairs", "object")
MOST_STEPS = 4
MOST = 500


def variables(scopes: Sequence[Scope], sources: Mapping[str, Source]) -> tuple[Variable, ...]:
    """What the functions of a stack hold, with the attributes of their objects, once each: the innermost function that has it first."""
    found: dict[tuple[str, str], Variable] = {}
    reading = _Reading(scopes, sources)
    for at, scope in enumerate(scopes):
        for name, value in (*scope.variables.items(), *scope.outer.items()):
            is_own = name in ("self", "cls")
            owner, origin = (value.type, None) if is_own else (scope.frame.function, reading.origin(name, at))
            for one in _below(Variable(name, owner, scope.frame, value, origin or "rank"), reading):
                found.setdefault((one.owner, one.name), one)
        if len(found) > MOST:
            break
    return tuple(found.values())


def _below(one: Variable, reading: _Reading) -> Iterator[Variable]:
    """The variable, and the attributes below it."""
    if one.value.kind in _TELLS:
        yield one
    if one.value.kind == "object":
        for name, held in one.value.parts.items():
            yield from _below(
                replace(one, name=f"{one.name}.{name}", value=held, origin=reading.of_attribute(str(name))), reading
            )


@dataclass(frozen=True)
class _Binding:
    """One place where a name gets a value: ``value``, under ``tests``; None of a parameter. ``given``: made of what the caller gave."""

    value: ast.expr | None
    tests: Sequence[ast.expr]
    counts: bool = False
    given: bool = False


class _Reading:
    def __init__(self, scopes: Sequence[Scope], sources: Mapping[str, Source]) -> None:
        self._scopes, self._sources = scopes, sources
        self._of_attributes: dict[str, Origin] = {}

    def origin(self, name: str, scope: int, left: int = MOST_STEPS) -> Origin:
        if _is_called_so(name):
            return "rank"
        frame = self._scopes[scope].frame
        source = self._sources.get(frame.file)
        if source is None:
            return "not known"
        function = source.function(frame.line)
        bindings = list(_of_name(function, name, source))
        if not bindings and isinstance(function, FUNCTIONS) and name in self._scopes[scope].outer:
            bindings = list(_of_name(source.tree, name, source))
        return self._judged(name, bindings, scope, left)

    def of_attribute(self, name: str) -> Origin:
        """By all that the sources at hand assign to an attribute of that name."""
        if name not in self._of_attributes:
            self._of_attributes[name] = "not known"  # it may be made of itself
            bindings = [b for source in self._sources.values() for b in _of_attribute(source, name)]
            self._of_attributes[name] = (
                "rank" if _is_called_so(name) else self._judged(name, bindings, None, MOST_STEPS)
            )
        return self._of_attributes[name]

    def _judged(self, name: str, bindings: Sequence[_Binding], scope: int | None, left: int) -> Origin:
        if not bindings or left == 0:
            return "not known"
        values = [b.value for b in bindings if b.value is not None]
        if any(self._is_of_a_rank(node, name, scope, left - 1) for b in bindings for node in b.tests) or any(
            self._is_of_a_rank(node, name, scope, left - 1) for node in values
        ):
            return "rank"
        if any(b.counts for b in bindings) or _COUNTS.search(name) or self._counts_along(values, name, scope, left - 1):
            return "progress"
        return "not known" if any(b.given or b.value is None for b in bindings) else "program"

    def _counts_along(self, values: Sequence[ast.expr], name: str, scope: int | None, left: int) -> bool:
        """Whether a value is computed from one that counts: ``f"epoch-{epoch}"``, and not ``epoch % 5 == 0``."""
        if scope is None:
            return False
        names = {one for value in values for one in _direct(value)} - {name}
        known = self._scopes[scope].variables
        return any(self.origin(one, scope, left) == "progress" for one in names if one in known and left > 0)

    def _is_of_a_rank(self, node: ast.expr, name: str, scope: int | None, left: int) -> bool:
        for part in ast.walk(node):
            word = last_name(part)
            if not word:
                continue
            if _is_called_so(word):
                return True
            if scope is None or left == 0 or word == name or not isinstance(part, ast.Name):
                continue
            if word in self._scopes[scope].variables and self.origin(word, scope, left) == "rank":
                return True
        return False


def _is_called_so(name: str) -> bool:
    return bool((_CONSTANT_OF_A_RANK if name.isupper() else _OF_A_RANK).search(name))


def _of_name(function: Function, name: str, source: Source) -> Iterator[_Binding]:
    for node in own(function):
        if isinstance(node, (ast.For, ast.AsyncFor)) and binds(node.target, name):
            yield _Binding(node.iter, tuple(source.tests(node)), counts=True)
        elif isinstance(node, ast.AugAssign) and binds(node.target, name):
            yield _Binding(node.value, tuple(source.tests(node)), counts=not _within_an_if(node, source))
        else:
            for target, value in assigned(node):
                if binds(target, name):
                    yield _Binding(value, tuple(source.tests(node)), given=_is_given(value, function))
    if isinstance(function, FUNCTIONS) and name in parameters(function):
        yield _Binding(None, ())


def _of_attribute(source: Source, name: str) -> Iterator[_Binding]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute) and node.target.attr == name:
            yield _Binding(node.value, tuple(source.tests(node)), counts=not _within_an_if(node, source))
        elif isinstance(node, ast.Call):
            for keyword in (k for k in node.keywords if k.arg == name):
                given = _is_given(keyword.value, source.function(node.lineno))
                yield _Binding(keyword.value, tuple(source.tests(node)), given=given)
        else:
            for target, value in assigned(node):
                if any(isinstance(t, ast.Attribute) and t.attr == name for t in targets(target)):
                    given = _is_given(value, source.function(value.lineno))
                    yield _Binding(value, tuple(source.tests(node)), given=given)


def _is_given(value: ast.expr, function: Function) -> bool:
    """Whether `value` is made of a parameter, and not by a call that may make anything of it."""
    return isinstance(function, FUNCTIONS) and bool(_direct(value) & (parameters(function) - {"self", "cls"}))


def _direct(node: ast.AST) -> set[str]:
    """The names in an expression, but for those within calls and comparisons."""
    if isinstance(node, ast.Name):
        return {node.id}
    if isinstance(node, (ast.Call, ast.Compare)):
        return set()
    return {name for child in ast.iter_child_nodes(node) for name in _direct(child)}


def _within_an_if(node: ast.AST, source: Source) -> bool:
    """Whether something is done in a loop now and then only, and not each time round."""
    outer = source.parents.get(node)
    while outer is not None and not isinstance(outer, (*FUNCTIONS, ast.For, ast.While)):
        if isinstance(outer, ast.If):
            return True
        outer = source.parents.get(outer)
    return False
