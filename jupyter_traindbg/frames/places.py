"""The functions in which an expression of a source has a value: those on a stack, and those that have returned meanwhile, whose arguments
are known by the call that led there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from ..model import Frame, Scope, Value
from .evaluating import Names, evaluate, truth
from .syntax import FUNCTIONS, Function, Source, assigned, binds, last_name, own, parameters

__all__ = ["At", "Code", "Place", "unified"]

MOST_STEPS, MOST_CALLS = 12, 500
"""So far a value is followed back, and into so many calls."""


class At(NamedTuple):
    """An expression in a place. ``bound``: what some of its names were when it was evaluated, where that is known otherwise."""

    node: ast.expr
    place: Place
    bound: Mapping[str, Value] = {}


@dataclass(frozen=True, eq=False)
class Place:
    """A function. ``line``: the one under way in it; None where it has returned. ``given``: of one that has returned, what its parameters
    were; of one on the stack `caller` tells.
    """

    code: Code
    source: Source
    function: Function
    scope: Scope
    line: int | None = None
    given: Mapping[str, At] = field(default_factory=dict)

    @cached_property
    def nodes(self) -> Sequence[ast.AST]:
        return tuple(own(self.function))

    @property
    def caller(self) -> Place | None:
        """Of one on the stack."""
        return None if self.line is None else self.code.outside_of(self)

    def call(self) -> At | None:
        """The call in the caller that this function was entered by, where that is on the stack, too."""
        caller = self.caller
        if caller is None or caller.line is None or not isinstance(self.function, FUNCTIONS):
            return None
        names = (self.function.name,)
        call = caller.source.call(caller.line, caller.scope.reach, names)
        return None if call is None else At(call, caller)

    def argument(self, name: str) -> At | None:
        """What the parameter `name` was given, and None where that is not known."""
        if self.line is None:
            return self.given.get(name)
        call = self.call()
        if call is None or not isinstance(call.node, ast.Call) or not isinstance(self.function, FUNCTIONS):
            return None
        if name == _receiver(self.function) and isinstance(call.node.func, ast.Attribute):
            return At(call.node.func.value, call.place, call.bound)
        node = arguments(self.function, call.node).get(name)
        return None if node is None else At(node, call.place, call.bound)

    def value(self, node: ast.expr, since: ast.AST, bound: Mapping[str, Value], left: int = MOST_STEPS) -> Value | None:
        """What `node` came to when `since` was under way, as far as its variables are still what they were then."""
        return evaluate(node, self._then(since, bound, left))

    def truth(self, test: ast.expr, since: ast.AST, bound: Mapping[str, Value], left: int = MOST_STEPS) -> bool | None:
        """Whether a condition held then; None where that is not known."""
        return truth(test, self._then(since, bound, left))

    def _then(self, since: ast.AST, bound: Mapping[str, Value], left: int) -> Names:
        return Names(
            lambda name: bound.get(name) or self._named(name, since, left),
            lambda call: self._returned(At(call, self, bound), left - 1) if left > 0 else None,
        )

    def _returned(self, at: At, left: int) -> Value | None:
        """What a call of a function of the program comes to: the one ``return`` that may have ended it."""
        assert isinstance(at.node, ast.Call)
        known = self.code.seat.get(last_name(at.node.func)) if not at.node.args else None
        if known is not None:
            return Value("plain", "int", plain=known)
        place = self.code.entered(at) if self.code.has_time() else None
        nodes = () if place is None else place.nodes
        ends = [n for n in nodes if isinstance(n, ast.Return) and place is not None and place.may_reach(n, {}, left)]
        if place is None or len(ends) != 1 or ends[0].value is None:
            return None
        return place.value(ends[0].value, ends[0], {}, left)

    def may_reach(self, statement: ast.AST, bound: Mapping[str, Value], left: int = MOST_STEPS) -> bool:
        """Whether nothing tells that `statement` was left out."""
        told = ((self.truth(test, statement, bound, left), then) for test, then in self.source.conditions(statement))
        return all(held is None or held is then for held, then in told)

    def _named(self, name: str, since: ast.AST, left: int) -> Value | None:
        if self._is_comprehended(name, since):
            return None
        if self.line is not None:
            return None if self._has_changed(name, since, self.line) else self._told(name)
        values = [v for node in self.nodes for target, v in _set_by(node) if binds(target, name)]
        given = self.given.get(name)
        if given is not None:
            return None if values or left == 0 else given.place.value(given.node, given.node, given.bound, left - 1)
        if not values:
            return None if name in parameters(self.function) - set(self.scope.variables) else self._told(name)
        made = None if len(values) > 1 or values[0] is None or left == 0 else self.value(values[0], since, {}, left - 1)
        return None if made is None or made.kind in ("items", "pairs") else made  # more may have been put into it

    def _told(self, name: str) -> Value | None:
        """As the agent has told it; else as its module has it for good."""
        found, constant = self.scope.value(name), self.source.constant(name)
        return evaluate(constant, self.scope) if found is None and constant is not None else found

    def _is_comprehended(self, name: str, node: ast.AST) -> bool:
        """Whether the name is, at `node`, one that a comprehension around it runs through something with."""
        around = (one for outer in self.source.within(node) for one in getattr(outer, "generators", ()))
        return any(binds(one.target, name) for one in around)

    def _has_changed(self, name: str, since: ast.AST, line: int) -> bool:
        """Whether the variable may have got another value: by its loop, or by a line between that one and the one under way."""
        then = getattr(since, "lineno", line)
        for node in self.nodes:
            if isinstance(node, ast.For) and binds(node.target, name):
                within = node.lineno <= line <= (node.end_lineno or line)
                if not within or then > line:
                    return True
            elif any(binds(target, name) for target, _ in _set_by(node)) and not line >= then >= getattr(
                node, "lineno", line
            ):
                return True
        return False


class Code:
    """A stack and its sources: the places there are."""

    def __init__(self, scopes: Sequence[Scope], sources: Mapping[str, Source], seat: Mapping[str, int]) -> None:
        """``seat``: what torch's functions of these names return there: ``get_rank``, ``get_world_size``."""
        self._scopes, self._sources, self.seat = scopes, sources, seat
        self._places: dict[int, Place] = {}
        self._calls_left = MOST_CALLS

    def has_time(self) -> bool:
        """Whether one more call may be followed for what it returns."""
        self._calls_left -= 1
        return self._calls_left > 0

    def live(self, index: int) -> Place | None:
        """The place of the scope with that index, 0 the innermost; None without its source."""
        if index >= len(self._scopes):
            return None
        scope = self._scopes[index]
        source = self._sources.get(scope.frame.file)
        if source is None:
            return None
        if index not in self._places:
            line = scope.frame.line
            self._places[index] = Place(self, source, source.function(line), scope, line)
        return self._places[index]

    def outside_of(self, place: Place) -> Place | None:
        """The one that called it, where there is no function of a library between the two."""
        index = next(i for i, scope in enumerate(self._scopes) if scope is place.scope)
        after = self._scopes[index + 1] if index + 1 < len(self._scopes) else None
        return None if after is None or after.depth != place.scope.depth + 1 else self.live(index + 1)

    def of_attribute(self, name: str) -> Iterator[tuple[Source, Function, ast.AST]]:
        """Every statement and call of the sources in which an attribute of that name stands, with the function around it."""
        for source in self._sources.values():
            for node in source.naming(name):
                yield source, source.function(node.lineno), node

    def past(self, source: Source, function: Function, known: Mapping[str, Value], given: Mapping[str, At]) -> Place:
        """One that has returned, with what is known of its variables."""
        file = next(file for file, one in self._sources.items() if one is source)
        outer = {n: v for s in self._scopes if s.frame.file == file for n, v in s.outer.items()}
        name = function.name if isinstance(function, FUNCTIONS) else "<module>"
        return Place(self, source, function, Scope(Frame(file, 0, name), 0, None, known, outer), None, given)

    def here(self, source: Source, function: Function, known: Mapping[str, Value]) -> Place:
        """The function on the stack where it is on it, else as one that has returned, of whose caller nothing is known."""
        on_it = (self.live(i) for i in range(len(self._scopes)))
        found = next((p for p in on_it if p is not None and p.function is function), None)
        return found or self.past(source, function, known, {})

    def entered(self, at: At) -> Place | None:
        """The function that was called by `at`, as it was when it returned; of a class its ``__init__``. None where there is no such
        function in the sources, or more than one.
        """
        call = at.node
        assert isinstance(call, ast.Call)
        name, receiver = last_name(call.func), None
        on = call.func.value if isinstance(call.func, ast.Attribute) else None
        if on is not None:
            receiver = at.place.value(on, call, at.bound)
        else:
            held = at.place.value(call.func, call, at.bound)
            name = held.words.rpartition(".")[2] if held is not None and held.kind == "function" else name
        found = self._defined(name, receiver.type if receiver is not None and receiver.kind == "object" else "")
        if found is None:
            return None
        source, function = found
        given = {n: At(node, at.place, at.bound) for n, node in arguments(function, call).items()}
        if on is not None and (own_name := _receiver(function)):
            given[own_name] = At(on, at.place, at.bound)
        return self.past(source, function, {}, given)

    def _defined(self, name: str, cls: str) -> tuple[Source, ast.FunctionDef | ast.AsyncFunctionDef] | None:
        found = [(source, one) for source in self._sources.values() for one in source.functions(name)]
        if len(found) > 1 and cls:
            found = [(source, one) for source, one in found if source.class_of(one) == cls]
        if not found:
            found = [
                (s, init)
                for s in self._sources.values()
                for init in s.functions("__init__")
                if s.class_of(init) == name
            ]
        return found[0] if len(found) == 1 else None


def _set_by(node: ast.AST) -> list[tuple[ast.expr, ast.expr | None]]:
    """What a statement sets, and to what; None where that is a part of something, or another at each round."""
    if isinstance(node, (ast.AugAssign, ast.For)):
        return [(node.target, None)]
    return [(target, None if isinstance(target, ast.Tuple) else value) for target, value in assigned(node)]


def _receiver(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)][:1]
    return names[0] if names and names[0] in ("self", "cls") else ""


def arguments(function: ast.FunctionDef | ast.AsyncFunctionDef, call: ast.Call) -> dict[str, ast.expr]:
    """What `call` of `function` gives for its parameters; of those that it leaves out, their defaults."""
    every = function.args
    names = [a.arg for a in (*every.posonlyargs, *every.args)]
    defaults = dict(zip(names[len(names) - len(every.defaults) :], every.defaults, strict=True))
    defaults |= {a.arg: d for a, d in zip(every.kwonlyargs, every.kw_defaults, strict=True) if d is not None}
    is_method = bool(_receiver(function)) and (isinstance(call.func, ast.Attribute) or function.name == "__init__")
    names = names[1:] if is_method else names
    given = {k.arg: k.value for k in call.keywords if k.arg is not None}
    for name, node in zip(names, call.args, strict=False):
        if isinstance(node, ast.Starred):
            return given
        given[name] = node
    spread = any(k.arg is None for k in call.keywords)
    return given if spread else {**{n: d for n, d in defaults.items() if n not in given}, **given}


def _unified_text(pattern: ast.JoinedStr, value: Value) -> dict[str, Value] | None:
    """``f"recv-{side}"`` with what that came to."""
    if value.kind != "plain" or not isinstance(value.plain, str):
        return {}
    parts = [p.value if isinstance(p, ast.FormattedValue) else p for p in pattern.values]
    form = "".join(re.escape(str(p.value)) if isinstance(p, ast.Constant) else "(.+)" for p in parts)
    found = re.fullmatch(form, value.plain)
    if found is None:
        return None
    names = [p for p in parts if not isinstance(p, ast.Constant)]
    if len(names) != 1 or not isinstance(names[0], ast.Name):
        return {}
    plain = int(found[1]) if found[1].isdecimal() else found[1]
    return {names[0].id: Value("plain", type(plain).__name__, plain=plain)}


def unified(pattern: ast.expr, value: Value | None) -> dict[str, Value] | None:
    """What the names of `pattern` must be for it to come to `value`, as far as that is seen; None where it cannot."""
    if value is None or isinstance(pattern, ast.Name):
        return {} if value is None or not isinstance(pattern, ast.Name) else {pattern.id: value}
    if isinstance(pattern, ast.Constant):
        return {} if value.kind != "plain" or value.plain == pattern.value else None
    if isinstance(pattern, ast.JoinedStr):
        return _unified_text(pattern, value)
    if isinstance(pattern, ast.Tuple) and value.kind == "items" and len(pattern.elts) == value.size:
        found: dict[str, Value] = {}
        for i, part in enumerate(pattern.elts):
            inner = unified(part, value.parts.get(i))
            if inner is None:
                return None
            found |= inner
        return found
    return {}
