"""Where a `Work` of torch's was made, by the source: the ``isend``, ``irecv`` or `P2POp` whose result it is, through variables, containers,
attributes, the arguments of functions, and what functions return. Its peer and its tag are in that call.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ..model import Value
from .evaluating import plain_of
from .places import At, Code, unified
from .syntax import FUNCTIONS, assigned, last_name
from .ways import (
    ANY,
    Attribute,
    IsIt,
    Item,
    Put,
    Way,
    bindings,
    passed_on,
    position,
    puts_of,
    runs_through,
    siblings,
    value_of,
    way_to,
)

__all__ = ["TRANSFERS", "Transfer", "transfers"]

TRANSFERS: Mapping[str, str] = {"isend": "dst", "irecv": "src"}
MOST_STEPS, MOST_EXPRESSIONS = 24, 2000
"""So far, and in so many expressions, a work is followed back."""


class Transfer(NamedTuple):
    op: str
    peer: int | None
    tag: int | None


def transfers(at: At, code: Code, ident: int = 0) -> list[Transfer]:
    """What may have made the work that `at` comes to; ``ident`` tells which one that is among others, where it is known."""
    return list(dict.fromkeys(_Following(code, ident).follow(at, (), MOST_STEPS)))


class _Following:
    def __init__(self, code: Code, ident: int) -> None:
        self._code, self._ident, self._left = code, ident, MOST_EXPRESSIONS
        self._kinds: Mapping[type[ast.expr], Callable[[At, Way, int], Iterator[Transfer]]] = {
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

    def follow(self, at: At, way: Way, left: int) -> Iterator[Transfer]:
        """The transfers that may be at the end of `way` from `at`."""
        if isinstance(at.node, (ast.Starred, ast.Await, ast.NamedExpr)):
            at = at._replace(node=at.node.value)
        kind = self._kinds.get(type(at.node))
        self._left -= 1
        if kind is not None and left > 0 and self._left > 0:
            yield from kind(at, way, left - 1)

    # --- variables

    def _name(self, at: At, way: Way, left: int) -> Iterator[Transfer]:
        name, place = last_name(at.node), at.place

        def is_it(node: ast.expr) -> bool:
            return isinstance(node, ast.Name) and node.id == name

        way = self._narrowed(at, way)
        for node in place.nodes:
            yield from self._of_binding(node, at, is_it, way, left)
        given = place.argument(name)
        if given is not None:
            yield from self.follow(given, way, left)
        puts = [p for node in place.nodes for p in puts_of(node, at, is_it)]
        yield from self._of_puts(puts, way, left)

    def _of_binding(self, node: ast.AST, at: At, is_it: IsIt, way: Way, left: int) -> Iterator[Transfer]:
        for target, value, each in bindings(node):
            steps = way_to(is_it, at._replace(node=target))
            if steps is not None and at.place.may_reach(node, at.bound):
                yield from self.follow(at._replace(node=value), ((ANY,) if each else ()) + steps + way, left)

    def _attribute(self, at: At, way: Way, left: int) -> Iterator[Transfer]:
        assert isinstance(at.node, ast.Attribute)
        name, on = at.node.attr, at.place.value(at.node.value, at.node, at.bound)
        cls = on.type if on is not None and on.kind == "object" else ""
        puts: list[Put] = []

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
            puts += puts_of(node, there, is_it)
        yield from self._of_puts(puts, way, left)
        yield from self.follow(at._replace(node=at.node.value), (Attribute(name), *way), left)

    def _subscript(self, at: At, way: Way, left: int) -> Iterator[Transfer]:
        assert isinstance(at.node, ast.Subscript)
        key = at.place.value(at.node.slice, at.node, at.bound)
        yield from self.follow(at._replace(node=at.node.value), (Item(key), *way), left)

    # --- what was put into a container

    def _narrowed(self, at: At, way: Way) -> Way:
        """The way on from a container, by what is in it now: the one work that is waited for is known among others."""
        held = at.place.value(at.node, at.node, at.bound)
        if held is None or not way or not isinstance(way[0], Item):
            return way
        first, rest = way[0], way[1:]
        key = first.key
        if key is None and self._ident:
            key = next((value_of(k) for k, part in held.parts.items() if self._is_it(part, rest)), None)
        return replace(first, key=key, among=held.size if held.kind == "items" else None), *rest

    def _is_it(self, part: Value, rest: Way) -> bool:
        inner: Value | None = part
        for step in rest:
            index = position((step,))
            inner = None if inner is None or index is None else inner.parts.get(index)
        return inner is not None and inner.kind == "work" and inner.ident == self._ident

    def _of_puts(self, puts: Sequence[Put], way: Way, left: int) -> Iterator[Transfer]:
        if not way or not isinstance(way[0], Item):
            return
        item, rest = way[0], way[1:]
        for put in self._at_index([p for p in puts if p.at.place.may_reach(p.statement, p.at.bound)], item):
            bound = {} if put.key is None else unified(put.key, item.key)
            if bound is not None:
                into = put.at._replace(bound={**put.at.bound, **self._in_its_round(put, bound)})
                yield from self.follow(into, (ANY, *rest) if put.each else rest, left)

    def _in_its_round(self, put: Put, bound: Mapping[str, Value]) -> Mapping[str, Value]:
        """What is known of the variables of the loop around `put`, with the others of the same round, where these tell which one it was."""
        loop = next(iter(put.at.place.source.loops(put.statement)), None)
        if not bound or not isinstance(loop, ast.For):
            return bound
        rounds = [unified(loop.target, one) or {} for one in runs_through(At(loop.iter, put.at.place))]
        fitting = [
            one for one in rounds if bound.keys() & one.keys() and all(one.get(n, v) == v for n, v in bound.items())
        ]
        return {**fitting[0], **bound} if len(fitting) == 1 else bound

    def _at_index(self, puts: Sequence[Put], item: Item) -> Sequence[Put]:
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

    def _rounds(self, puts: Sequence[Put], loop: ast.For) -> list[Put]:
        """The puts of each round of `loop`, in their order, with its variables bound."""
        found: list[Put] = []
        for one in runs_through(At(loop.iter, puts[0].at.place)):
            bound = unified(loop.target, one) or {}
            for put in puts:
                into = put.at._replace(bound={**put.at.bound, **bound})
                if into.place.may_reach(put.statement, into.bound):
                    found.append(put._replace(at=into))
        return found

    # --- containers that are written out

    def _sequence(self, at: At, way: Way, left: int) -> Iterator[Transfer]:
        assert isinstance(at.node, (ast.List, ast.Tuple))
        if not way or not isinstance(way[0], Item):
            return
        item, rest = way[0], way[1:]
        index, parts = plain_of(item.key), at.node.elts
        spread = any(isinstance(p, ast.Starred) for p in parts)
        bound = {**at.bound, **siblings(at.node, item)}
        if isinstance(index, int) and not spread and (item.among is None or item.among >= len(parts)):
            index = index % item.among if item.among else index
            parts = parts[index:][:1]
        for part in parts:
            step = (ANY, *rest) if isinstance(part, ast.Starred) else rest
            yield from self.follow(at._replace(node=part, bound=bound), step, left)

    def _dict(self, at: At, way: Way, left: int) -> Iterator[Transfer]:
        assert isinstance(at.node, ast.Dict)
        if not way or not isinstance(way[0], Item):
            return
        for key, value in zip(at.node.keys, at.node.values, strict=True):
            bound = None if key is None else unified(key, way[0].key)
            if key is None:
                yield from self.follow(at._replace(node=value), way, left)
            elif bound is not None:
                yield from self.follow(at._replace(node=value, bound={**at.bound, **bound}), way[1:], left)

    def _comprehension(self, at: At, way: Way, left: int) -> Iterator[Transfer]:
        node = at.node
        assert isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp))
        if not way or not isinstance(way[0], Item):
            return
        key, bound = way[0].key, dict(at.bound)
        if isinstance(node, ast.DictComp):
            bound |= unified(node.key, key) or {}
        elif isinstance(node, ast.ListComp) and len(node.generators) == 1 and not node.generators[0].ifs:
            runs, index = list(runs_through(at._replace(node=node.generators[0].iter))), plain_of(key)
            if isinstance(index, int) and -len(runs) <= index < len(runs):
                bound |= unified(node.generators[0].target, runs[index]) or {}
        value = node.value if isinstance(node, ast.DictComp) else node.elt
        yield from self.follow(at._replace(node=value, bound=bound), way[1:], left)

    def _choice(self, at: At, way: Way, left: int) -> Iterator[Transfer]:
        assert isinstance(at.node, ast.IfExp)
        decided = at.place.truth(at.node.test, at.node, at.bound)
        for branch, holds in ((at.node.body, True), (at.node.orelse, False)):
            if decided is not (not holds):
                yield from self.follow(at._replace(node=branch), way, left)

    def _sum(self, at: At, way: Way, left: int) -> Iterator[Transfer]:
        assert isinstance(at.node, ast.BinOp)
        for side in (at.node.left, at.node.right) if way else ():
            yield from self.follow(at._replace(node=side), (ANY, *way[1:]), left)

    # --- calls

    def _call(self, at: At, way: Way, left: int) -> Iterator[Transfer]:
        call = at.node
        assert isinstance(call, ast.Call)
        name = last_name(call.func)
        if name in TRANSFERS or name == "P2POp":
            if not way:
                yield _transfer(at)
        elif name == "batch_isend_irecv":
            yield from self._batch(at, way, left)
        else:
            passed = passed_on(at, way)
            if passed is None:
                yield from self._of_function(at, way, left)
            else:
                yield from self.follow(*passed, left)

    def _batch(self, at: At, way: Way, left: int) -> Iterator[Transfer]:
        call = at.node
        assert isinstance(call, ast.Call)
        given = next(iter((*call.args, *(k.value for k in call.keywords))), None)
        value = None if given is None else at.place.value(given, call, at.bound)
        if given is None or not way or not isinstance(way[0], Item):
            return
        parts = {} if value is None else value.parts
        if not parts or any(part.kind != "exchange" for part in parts.values()):
            yield from self.follow(at._replace(node=given), way, left)
            return
        index = plain_of(way[0].key)
        for key, part in parts.items():
            if not isinstance(index, int) or key == index:
                yield Transfer(part.op, part.peer, part.tag)

    def _of_function(self, at: At, way: Way, left: int) -> Iterator[Transfer]:
        """What a function of the program returns or yields, or what its class keeps."""
        place = self._code.entered(at)
        if place is None or not isinstance(place.function, FUNCTIONS):
            return
        makes = place.function.name == "__init__"
        for node in place.nodes:
            if makes and way and isinstance(way[0], Attribute):
                for target, value in assigned(node):
                    if isinstance(target, ast.Attribute) and target.attr == way[0].name:
                        yield from self.follow(At(value, place), way[1:], left)
            elif isinstance(node, ast.Return) and node.value is not None and place.may_reach(node, {}):
                yield from self.follow(At(node.value, place), way, left)
            elif isinstance(node, ast.Yield) and node.value is not None and way:
                yield from self.follow(At(node.value, place), way[1:], left)


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
