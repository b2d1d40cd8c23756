"""One step on the way from what an expression comes to towards where a part of that was made: out of a variable, a container, or a call of
Python's own that hands on what it was given.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ..model import Value
from .evaluating import plain_of
from .places import At
from .syntax import assigned, last_name

__all__ = [
    "ANY",
    "Attribute",
    "IsIt",
    "Item",
    "Put",
    "Way",
    "bindings",
    "passed_on",
    "position",
    "puts_of",
    "runs_through",
    "siblings",
    "value_of",
    "way_to",
]

MOST_ROUNDS = 64
"""Of a loop that fills a list: what went round more often is not followed."""


class Attribute(NamedTuple):
    name: str


@dataclass(frozen=True)
class Item:
    """Something in a container, at `key` where that is known. ``beside``: the target that it was unpacked to together with others;
    ``among``: how many the container has now, of a sequence where that is known.
    """

    key: Value | None = None
    beside: At | None = None
    among: int | None = None


Way = tuple[Attribute | Item, ...]
"""From what an expression comes to, to the work: the attribute to take first, then the item of that, ..."""
ANY = Item()
IsIt = Callable[[ast.expr], bool]


class Put(NamedTuple):
    """What a statement puts into a container, at ``key``; with `each` all that is in it."""

    at: At
    statement: ast.AST
    key: ast.expr | None = None
    each: bool = False


# --- what a call of Python's own hands on --------------------------------------------------------------------------

_SAME = ("list", "tuple", "iter", "set", "deque", "filter", "sorted", "reversed")
_TAKES = ("pop", "popleft", "get", "setdefault")


def passed_on(at: At, way: Way) -> tuple[At, Way] | None:
    """Where to go on from a call that hands out what is in something else; None of any other."""
    call = at.node
    assert isinstance(call, ast.Call)
    if isinstance(call.func, ast.Attribute):
        return _by_method(at._replace(node=call.func.value), call.func.attr, call, way)
    if not call.args:
        return None
    name, index = last_name(call.func), position(way[1:])
    arg = at._replace(node=call.args[-1 if name == "filter" else 0])
    on: tuple[At, Way] | None = None
    if name in _SAME and way:
        on = arg, (way if name in ("list", "tuple") else (ANY, *way[1:]))
    elif name == "next":
        on = arg, (ANY, *way)
    elif name == "enumerate" and index == 1:
        on = arg, (Item(_first_beside(way[1])), *way[2:])
    elif name == "zip" and index is not None and index < len(call.args):
        on = at._replace(node=call.args[index]), (ANY, *way[2:])
    return on


def _by_method(on: At, name: str, call: ast.Call, way: Way) -> tuple[At, Way] | None:
    if name in ("values", "copy") and not call.args:
        return on, way
    if name == "items" and position(way[1:]) == 1:
        return on, (Item(_first_beside(way[1])), *way[2:])
    if name == "popitem" and position(way) == 1:
        return on, (Item(_first_beside(way[0])), *way[1:])
    if name in _TAKES:
        key = on.place.value(call.args[0], call, on.bound) if call.args else None
        held = on.place.value(on.node, call, on.bound)
        of_dict = held is not None and held.kind == "pairs"
        by_place = key is None or (name == "pop" and isinstance(plain_of(key), int) and not of_dict)
        return on, (ANY if by_place else Item(key), *way)
    return None


def position(way: Way) -> int | None:
    index = plain_of(way[0].key) if way and isinstance(way[0], Item) else None
    return index if type(index) is int else None


def _first_beside(step: Attribute | Item) -> Value | None:
    """What the first of the names is that were unpacked together: the key, or the number."""
    if not isinstance(step, Item) or step.beside is None or not isinstance(step.beside.node, ast.Tuple):
        return None
    first = step.beside.node.elts[0]
    return step.beside.place.value(first, first, step.beside.bound)


def siblings(pattern: ast.expr, item: Item) -> dict[str, Value]:
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


def bindings(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr, bool]]:
    """What a statement sets, to what; with True to each of what is in that."""
    yield from ((target, value, False) for target, value in assigned(node))
    if isinstance(node, (ast.For, ast.comprehension)):
        yield node.target, node.iter, True


def way_to(is_it: IsIt, target: At) -> Way | None:
    """The way to what `is_it` tells in what is unpacked to `target`; None where it is not there."""
    node = target.node
    if is_it(node):
        return ()
    for i, part in enumerate(node.elts) if isinstance(node, (ast.Tuple, ast.List)) else ():
        inner = way_to(is_it, target._replace(node=part))
        if inner is not None:
            return (Item(value_of(i), target), *inner)
    return None


def puts_of(node: ast.AST, at: At, is_it: IsIt) -> Iterator[Put]:
    """What a statement or call puts into what `is_it` tells."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Subscript) and is_it(target.value):
                yield Put(at._replace(node=node.value), node, target.slice)
    elif isinstance(node, ast.AugAssign) and is_it(node.target):
        yield Put(at._replace(node=node.value), node, each=True)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args and is_it(node.func.value):
        how = node.func.attr
        if how in ("append", "appendleft", "add", "put"):
            yield Put(at._replace(node=node.args[0]), node)
        elif how in ("extend", "update"):
            yield Put(at._replace(node=node.args[0]), node, each=True)
        elif how == "setdefault" and len(node.args) > 1:
            yield Put(at._replace(node=node.args[1]), node, node.args[0])


_VIEWS: Mapping[str, Callable[[object, Value], Value]] = {
    "keys": lambda key, _: value_of(key),
    "values": lambda _, part: part,
    "items": lambda key, part: Value("items", "tuple", parts={0: value_of(key), 1: part}, size=2),
}


def runs_through(at: At) -> Iterator[Value]:
    """What a loop over `at` runs through, where that is known."""
    node = at.node
    if isinstance(node, ast.Call) and last_name(node.func) == "range" and not node.keywords:
        given = [plain_of(at.place.value(arg, arg, at.bound)) for arg in node.args]
        bounds = [n for n in given if type(n) is int]
        if len(bounds) == len(given) and len(range(*bounds)) <= MOST_ROUNDS:
            yield from map(value_of, range(*bounds))
        return
    if isinstance(node, ast.Call) and node.args and last_name(node.func) in ("enumerate", "zip"):
        over = [list(runs_through(at._replace(node=arg))) for arg in node.args]
        if last_name(node.func) == "enumerate":
            over = [list(map(value_of, range(len(over[0])))), *over]
        rows = zip(*over, strict=False)
        yield from (Value("items", "tuple", parts=dict(enumerate(row)), size=len(row)) for row in rows)
        return
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS:
        held = at.place.value(node.func.value, node, at.bound)
        if held is not None and held.kind == "pairs" and held.size == len(held.parts):
            yield from (_VIEWS[node.func.attr](key, part) for key, part in held.parts.items())
        return
    held = at.place.value(node, node, at.bound)
    if held is not None and held.kind in ("items", "pairs") and held.size == len(held.parts):
        yield from held.parts.values() if held.kind == "items" else map(value_of, held.parts)


def value_of(key: object) -> Value:
    if isinstance(key, tuple):
        return Value("items", "tuple", parts={i: value_of(one) for i, one in enumerate(key)}, size=len(key))
    assert isinstance(key, (int, str, bool))
    return Value("plain", type(key).__name__, plain=key)
