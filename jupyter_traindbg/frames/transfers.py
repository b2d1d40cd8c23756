"""Where a `Work` of torch's was made, by the source: the ``isend``, ``irecv`` or `P2POp` whose result it is, through variables, containers,
attributes, the arguments of functions, and what functions return. Its peer and its tag are in that call.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..model import Value
from .evaluating import plain_of
from .places import At, Code, unified
from .syntax import FUNCTIONS, assigned, last_name

__all__ = ["TRANSFERS", "Transfer", "transfers"]

TRANSFERS: Mapping[str, str] = {"isend": "dst", "irecv": "src"}
MOST_STEPS, MOST_EXPRESSIONS = 24, 2000
"""So far, and in so many expressions, a work is followed back."""
MOST_ROUNDS = 64
"""Of a loop that fills a list."""


class Transfer(NamedTuple):
    op: str
    peer: int | None
    tag: int | None


class _Attribute(NamedTuple):
    name: str


@dataclass(frozen=True)
class _Item:
    """Something in a container, at `key` where that is known. ``beside``: the target that it was unpacked to together with others;
    ``among``: how many the container has now, of a sequence where that is known.
    """

    key: Value | None = None
    beside: At | None = None
    among: int | None = None


_Way = tuple[_Attribute | _Item, ...]
"""From what an expression comes to, to the work: the attribute to take first, then the item of that, ..."""
ANY = _Item()
_IsIt = Callable[[ast.expr], bool]


class _Put(NamedTuple):
    """What a statement puts into a container, at ``key``; with `each` all that is in it."""

    at: At
    statement: ast.AST
    key: ast.expr | None = None
    each: bool = False


def transfers(at: At, code: Code, ident: int = 0) -> list[Transfer]:
    """What may have made the work that `at` comes to; ``ident`` tells which one that is among others, where it is known."""
    return list(dict.fromkeys(_Following(code, ident).follow(at, (), MOST_STEPS)))


class _Following:
    def __init__(self, code: Code, ident: int) -> None:
        self._code, self._ident, self._left = code, ident, MOST_EXPRESSIONS
        self._kinds: Mapping[type[ast.expr], Callable[[At, _Way, int], Iterator[Transfer]]] = {
            ast.Name: self._name,
            ast.Attribute: self._attribute,
            ast.Subscript: self._subscript,
            ast.Call: self._call,
            ast.List: self._sequence,
            ast.Tuple: self._sequence,
            ast.Dict: self._dict,
            ast.ListComp: self._comprehension,
            ast.GeneratorExp: self._comprehension,
            ast.SetComp: self._comprehension,
            ast.DictComp: self._comprehension,
            ast.IfExp: self._choice,
            ast.BinOp: self._sum,
        }

    def follow(self, at: At, way: _Way, left: int) -> Iterator[Transfer]:
        """The transfers that may be at the end of `way` from `at`."""
        if isinstance(at.node, (ast.Starred, ast.Await, ast.NamedExpr)):
            at = at._replace(node=at.node.value)
        kind = self._kinds.get(type(at.node))
        self._left -= 1
        if kind is not None and left > 0 and self._left > 0:
            yield from kind(at, way, left - 1)

    # --- variables

    def _name(self, at: At, way: _Way, left: int) -> Iterator[Transfer]:
        name, place = last_name(at.node), at.place

        def is_it(node: ast.expr) -> bool:
            return isinstance(node, ast.Name) and node.id == name

        way = self._narrowed(at, way)
        for node in place.nodes:
            yield from self._of_binding(node, at, is_it, way, left)
        given = place.argument(name)
        if given is not None:
            yield from self.follow(given, way, left)
        puts = [p for node in place.nodes for p in _puts(node, at, is_it)]
        yield from self._of_puts(puts, way, left)

    def _of_binding(self, node: ast.AST, at: At, is_it: _IsIt, way: _Way, left: int) -> Iterator[Transfer]:
        for target, value, each in _bindings(node):
            steps = _to(is_it, at._replace(node=target))
            if steps is not None and at.place.may_reach(node, at.bound):
                yield from self.follow(at._replace(node=value), ((ANY,) if each else ()) + steps + way, left)

    def _attribute(self, at: At, way: _Way, left: int) -> Iterator[Transfer]:
        assert isinstance(at.node, ast.Attribute)
        name, on = at.node.attr, at.place.value(at.node.value, at.node, at.bound)
        cls = on.type if on is not None and on.kind == "object" else ""
        puts: list[_Put] = []

        def is_it(node: ast.expr) -> bool:
            return isinstance(node, ast.Attribute) and node.attr == name

        way = self._narrowed(at, way)
        for source, function, node in self._code.of_attribute(name):
            owner = source.class_of(function)
            if cls and owner and owner != cls:
                continue
            place = self._code.here(source, function, {} if on is None else {"self": on})
            there = At(at.node, place)
            yield from self._of_binding(node, there, is_it, way, left)
            puts += _puts(node, there, is_it)
        yield from self._of_puts(puts, way, left)
        yield from self.follow(at._replace(node=at.node.value), (_Attribute(name), *way), left)

    def _subscript(self, at: At, way: _Way, left: int) -> Iterator[Transfer]:
        assert isinstance(at.node, ast.Subscript)
        key = at.place.value(at.node.slice, at.node, at.bound)
        yield from self.follow(at._replace(node=at.node.value), (_Item(key), *way), left)

    # --- what was put into a container

    def _narrowed(self, at: At, way: _Way) -> _Way:
        """The way on from a container, by what is in it now: the one work that is waited for is known among others."""
        held = at.place.value(at.node, at.node, at.bound)
        if held is None or not way or not isinstance(way[0], _Item):
            return way
        first, rest = way[0], way[1:]
        key = first.key
        if key is None and self._ident:
            key = next((_value_of(k) for k, part in held.parts.items() if self._is_it(part, rest)), None)
        return replace(first, key=key, among=held.size if held.kind == "items" else None), *rest

    def _is_it(self, part: Value, rest: _Way) -> bool:
        inner: Value | None = part
        for step in rest:
            index = _position((step,))
            inner = None if inner is None or index is None else inner.parts.get(index)
        return inner is not None and inner.kind == "work" and inner.ident == self._ident

    def _of_puts(self, puts: Sequence[_Put], way: _Way, left: int) -> Iterator[Transfer]:
        if not way or not isinstance(way[0], _Item):
            return
        item, rest = way[0], way[1:]
        for put in self._at_index([p for p in puts if p.at.place.may_reach(p.statement, p.at.bound)], item):
            bound = {} if put.key is None else unified(put.key, item.key)
            if bound is not None:
                into = put.at._replace(bound={**put.at.bound, **bound})
                yield from self.follow(into, (ANY, *rest) if put.each else rest, left)

    def _at_index(self, puts: Sequence[_Put], item: _Item) -> Sequence[_Put]:
        """What may have been put into a sequence where `item` is. The puts, or the rounds of the one loop that they are in, are its last
        ones, as long as they are no more than it has.
        """
        index = plain_of(item.key)
        if type(index) is not int or item.among is None or any(p.key or p.each for p in puts):
            return puts
        around = {tuple(p.at.place.source.loops(p.statement)) for p in puts}
        loops: tuple[ast.AST | None, ...] = around.pop() if len(around) == 1 else (None, None)
        made = list(puts)
        if loops:
            made = self._rounds(puts, loops[0]) if len(loops) == 1 and isinstance(loops[0], ast.For) else []
        if not made or len(made) > item.among:
            return puts
        at = index % item.among - (item.among - len(made))
        return [made[at]] if at >= 0 else []

    def _rounds(self, puts: Sequence[_Put], loop: ast.For) -> list[_Put]:
        """The puts of each round of `loop`, in their order, with its variables bound."""
        found: list[_Put] = []
        for one in _runs_through(At(loop.iter, puts[0].at.place)):
            bound = unified(loop.target, one) or {}
            for put in puts:
                into = put.at._replace(bound={**put.at.bound, **bound})
                if into.place.may_reach(put.statement, into.bound):
                    found.append(put._replace(at=into))
        return found

    # --- containers that are written out

    def _sequence(self, at: At, way: _Way, left: int) -> Iterator[Transfer]:
        assert isinstance(at.node, (ast.List, ast.Tuple))
        if not way or not isinstance(way[0], _Item):
            return
        item, rest = way[0], way[1:]
        index, parts = plain_of(item.key), at.node.elts
        spread = any(isinstance(p, ast.Starred) for p in parts)
        bound = {**at.bound, **_siblings(at.node, item)}
        if isinstance(index, int) and not spread and (item.among is None or item.among >= len(parts)):
            index = index % item.among if item.among else index
            parts = parts[index:][:1]
        for part in parts:
            step = (ANY, *rest) if isinstance(part, ast.Starred) else rest
            yield from self.follow(at._replace(node=part, bound=bound), step, left)

    def _dict(self, at: At, way: _Way, left: int) -> Iterator[Transfer]:
        assert isinstance(at.node, ast.Dict)
        if not way or not isinstance(way[0], _Item):
            return
        for key, value in zip(at.node.keys, at.node.values, strict=True):
            bound = None if key is None else unified(key, way[0].key)
            if key is None:
                yield from self.follow(at._replace(node=value), way, left)
            elif bound is not None:
                yield from self.follow(at._replace(node=value, bound={**at.bound, **bound}), way[1:], left)

    def _comprehension(self, at: At, way: _Way, left: int) -> Iterator[Transfer]:
        node = at.node
        assert isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp))
        if not way or not isinstance(way[0], _Item):
            return
        key, bound = way[0].key, dict(at.bound)
        if isinstance(node, ast.DictComp):
            bound |= unified(node.key, key) or {}
        elif isinstance(node, ast.ListComp) and len(node.generators) == 1 and not node.generators[0].ifs:
            runs, index = list(_runs_through(at._replace(node=node.generators[0].iter))), plain_of(key)
            if isinstance(index, int) and -len(runs) <= index < len(runs):
                bound |= unified(node.generators[0].target, runs[index]) or {}
        value = node.value if isinstance(node, ast.DictComp) else node.elt
        yield from self.follow(at._replace(node=value, bound=bound), way[1:], left)

    def _choice(self, at: At, way: _Way, left: int) -> Iterator[Transfer]:
        assert isinstance(at.node, ast.IfExp)
        decided = at.place.truth(at.node.test, at.node, at.bound)
        for branch, holds in ((at.node.body, True), (at.node.orelse, False)):
            if decided is not (not holds):
                yield from self.follow(at._replace(node=branch), way, left)

    def _sum(self, at: At, way: _Way, left: int) -> Iterator[Transfer]:
        assert isinstance(at.node, ast.BinOp)
        for side in (at.node.left, at.node.right) if way else ():
            yield from self.follow(at._replace(node=side), (ANY, *way[1:]), left)

    # --- calls

    def _call(self, at: At, way: _Way, left: int) -> Iterator[Transfer]:
        call = at.node
        assert isinstance(call, ast.Call)
        name = last_name(call.func)
        if name in TRANSFERS or name == "P2POp":
            if not way:
                yield _transfer(at)
        elif name == "batch_isend_irecv":
            yield from self._batch(at, way, left)
        else:
            passed = _passed_on(at, way)
            if passed is None:
                yield from self._of_function(at, way, left)
            else:
                yield from self.follow(*passed, left)

    def _batch(self, at: At, way: _Way, left: int) -> Iterator[Transfer]:
        call = at.node
        assert isinstance(call, ast.Call)
        given = next(iter((*call.args, *(k.value for k in call.keywords))), None)
        value = None if given is None else at.place.value(given, call, at.bound)
        if given is None or not way or not isinstance(way[0], _Item):
            return
        parts = {} if value is None else value.parts
        if not parts or any(part.kind != "exchange" for part in parts.values()):
            yield from self.follow(at._replace(node=given), way, left)
            return
        index = plain_of(way[0].key)
        for key, part in parts.items():
            if not isinstance(index, int) or key == index:
                yield Transfer(part.op, part.peer, part.tag)

    def _of_function(self, at: At, way: _Way, left: int) -> Iterator[Transfer]:
        """What a function of the program returns or yields, or what its class keeps."""
        place = self._code.entered(at)
        if place is None or not isinstance(place.function, FUNCTIONS):
            return
        makes = place.function.name == "__init__"
        for node in place.nodes:
            if makes and way and isinstance(way[0], _Attribute):
                for target, value in assigned(node):
                    if isinstance(target, ast.Attribute) and target.attr == way[0].name:
                        yield from self.follow(At(value, place), way[1:], left)
            elif isinstance(node, ast.Return) and node.value is not None and place.may_reach(node, {}):
                yield from self.follow(At(node.value, place), way, left)
            elif isinstance(node, ast.Yield) and node.value is not None and way:
                yield from self.follow(At(node.value, place), way[1:], left)


# --- what a call of Python's own hands on --------------------------------------------------------------------------

_SAME = ("list", "tuple", "iter", "set", "deque", "filter", "sorted", "reversed")
_TAKES = ("pop", "popleft", "get", "setdefault")


def _passed_on(at: At, way: _Way) -> tuple[At, _Way] | None:
    """Where to go on from a call that hands out what is in something else; None of any other."""
    call = at.node
    assert isinstance(call, ast.Call)
    if isinstance(call.func, ast.Attribute):
        return _by_method(at._replace(node=call.func.value), call.func.attr, call, way)
    if not call.args:
        return None
    name, index = last_name(call.func), _position(way[1:])
    arg = at._replace(node=call.args[-1 if name == "filter" else 0])
    on: tuple[At, _Way] | None = None
    if name in _SAME and way:
        on = arg, (way if name in ("list", "tuple") else (ANY, *way[1:]))
    elif name == "next":
        on = arg, (ANY, *way)
    elif name == "enumerate" and index == 1:
        on = arg, (_Item(_first_beside(way[1])), *way[2:])
    elif name == "zip" and index is not None and index < len(call.args):
        on = at._replace(node=call.args[index]), (ANY, *way[2:])
    return on


def _by_method(on: At, name: str, call: ast.Call, way: _Way) -> tuple[At, _Way] | None:
    if name in ("values", "copy") and not call.args:
        return on, way
    if name == "items" and _position(way[1:]) == 1:
        return on, (_Item(_first_beside(way[1])), *way[2:])
    if name == "popitem" and _position(way) == 1:
        return on, (_Item(_first_beside(way[0])), *way[1:])
    if name in _TAKES:
        key = on.place.value(call.args[0], call, on.bound) if call.args else None
        held = on.place.value(on.node, call, on.bound)
        of_dict = held is not None and held.kind == "pairs"
        by_place = key is None or (name == "pop" and isinstance(plain_of(key), int) and not of_dict)
        return on, (ANY if by_place else _Item(key), *way)
    return None


def _position(way: _Way) -> int | None:
    index = plain_of(way[0].key) if way and isinstance(way[0], _Item) else None
    return index if type(index) is int else None


def _first_beside(step: _Attribute | _Item) -> Value | None:
    """What the first of the names is that were unpacked together: the key, or the number."""
    if not isinstance(step, _Item) or step.beside is None or not isinstance(step.beside.node, ast.Tuple):
        return None
    first = step.beside.node.elts[0]
    return step.beside.place.value(first, first, step.beside.bound)


def _siblings(pattern: ast.expr, item: _Item) -> dict[str, Value]:
    """What the names of `pattern` were, by what was unpacked from it."""
    target = item.beside
    if target is None or not isinstance(target.node, ast.Tuple) or not isinstance(pattern, ast.Tuple):
        return {}
    found: dict[str, Value] = {}
    for into, part in zip(target.node.elts, pattern.elts, strict=False):
        value = target.place.value(into, into, target.bound)
        if value is not None and isinstance(part, ast.Name):
            found[part.id] = value
    return found


# --- statements ----------------------------------------------------------------------------------------------------


def _bindings(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr, bool]]:
    """What a statement sets, to what; with True to each of what is in that."""
    yield from ((target, value, False) for target, value in assigned(node))
    if isinstance(node, (ast.For, ast.comprehension)):
        yield node.target, node.iter, True


def _to(is_it: _IsIt, target: At) -> _Way | None:
    """The way to what `is_it` tells in what is unpacked to `target`; None where it is not there."""
    node = target.node
    if is_it(node):
        return ()
    for i, part in enumerate(node.elts) if isinstance(node, (ast.Tuple, ast.List)) else ():
        inner = _to(is_it, target._replace(node=part))
        if inner is not None:
            return (_Item(_value_of(i), target), *inner)
    return None


def _puts(node: ast.AST, at: At, is_it: _IsIt) -> Iterator[_Put]:
    """What a statement or call puts into what `is_it` tells."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Subscript) and is_it(target.value):
                yield _Put(at._replace(node=node.value), node, target.slice)
    elif isinstance(node, ast.AugAssign) and is_it(node.target):
        yield _Put(at._replace(node=node.value), node, each=True)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args and is_it(node.func.value):
        how = node.func.attr
        if how in ("append", "appendleft", "add", "put"):
            yield _Put(at._replace(node=node.args[0]), node)
        elif how in ("extend", "update"):
            yield _Put(at._replace(node=node.args[0]), node, each=True)
        elif how == "setdefault" and len(node.args) > 1:
            yield _Put(at._replace(node=node.args[1]), node, node.args[0])


_VIEWS: Mapping[str, Callable[[object, Value], Value]] = {
    "keys": lambda key, _: _value_of(key),
    "values": lambda _, part: part,
    "items": lambda key, part: Value("items", "tuple", parts={0: _value_of(key), 1: part}, size=2),
}


def _runs_through(at: At) -> Iterator[Value]:
    """What a loop over `at` runs through, where that is known."""
    node = at.node
    if isinstance(node, ast.Call) and last_name(node.func) == "range" and not node.keywords:
        given = [plain_of(at.place.value(arg, arg, at.bound)) for arg in node.args]
        bounds = [n for n in given if type(n) is int]
        if len(bounds) == len(given):
            yield from map(_value_of, list(range(*bounds))[:MOST_ROUNDS])
        return
    if isinstance(node, ast.Call) and node.args and last_name(node.func) in ("enumerate", "zip"):
        over = [list(_runs_through(at._replace(node=arg))) for arg in node.args]
        rows = (
            zip(map(_value_of, range(len(over[0]))), over[0], strict=True)
            if len(over) == 1
            else zip(*over, strict=False)
        )
        yield from (Value("items", "tuple", parts=dict(enumerate(row)), size=len(row)) for row in rows)
        return
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS:
        held = at.place.value(node.func.value, node, at.bound)
        if held is not None and held.kind == "pairs" and held.size == len(held.parts):
            yield from (_VIEWS[node.func.attr](key, part) for key, part in held.parts.items())
        return
    held = at.place.value(node, node, at.bound)
    if held is not None and held.kind in ("items", "pairs") and held.size == len(held.parts):
        yield from held.parts.values() if held.kind == "items" else map(_value_of, held.parts)


def _value_of(key: object) -> Value:
    if isinstance(key, tuple):
        return Value("items", "tuple", parts={i: _value_of(one) for i, one in enumerate(key)}, size=len(key))
    assert isinstance(key, (int, str, bool))
    return Value("plain", type(key).__name__, plain=key)


def _transfer(at: At) -> Transfer:
    """What the call of ``isend``, ``irecv`` or ``P2POp`` transfers."""
    call = at.node
    assert isinstance(call, ast.Call)
    name = last_name(call.func)
    if name == "P2POp":
        op = last_name(call.args[0]) if call.args else ""
        return Transfer(op, _number(at, "peer", 2), _number(at, "tag", 4, 0))
    return Transfer(name, _number(at, TRANSFERS[name], 1), _number(at, "tag", 3, 0))


def _number(at: At, name: str, index: int, default: int | None = None) -> int | None:
    call = at.node
    assert isinstance(call, ast.Call)
    named = next((k.value for k in call.keywords if k.arg == name), None)
    node = named if named is not None else call.args[index] if index < len(call.args) else None
    found = default if node is None else plain_of(at.place.value(node, call, at.bound))
    return found if type(found) is int else None
