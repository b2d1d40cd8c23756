"""Loops that ask for something again and again, and sleep in between: what they ask for, and whether somebody changes what they go by."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..model import Change, Scope, Value, Variable, Wait
from .evaluating import evaluate
from .looked_at import names
from .syntax import Source, assigned, called, last_name

__all__ = ["asked_for", "changes"]

_GETS, _PUTS = ("get", "get_nowait", "empty", "qsize"), ("put", "put_nowait", "full")
_CLOCKS = frozenset({"time", "monotonic", "perf_counter", "time_ns", "monotonic_ns", "now", "utcnow", "sleep"})
_TELLS = frozenset({"print", "debug", "info", "warning", "log", "update", "set_postfix", "refresh", "write", "flush"})
_COMPUTES = frozenset({"min", "max", "round", "int", "float"})
_IDLES = _CLOCKS | _TELLS | _COMPUTES | {"len", "append", "str", "format"}
"""What a loop may call beside that for which it asks, and get nothing done by it: it looks at the clock, says something, counts."""


def asked_for(scope: Scope, source: Source) -> Wait | None:
    """What the loop at whose line `scope` stands waits for, where it does nothing but ask for it and sleep: an item of an empty queue, room
    in a full one, an event that is not set, a result that is not there.
    """
    loop = source.loop(scope.frame.line)
    if not isinstance(loop, ast.While) or "sleep" not in called(loop):
        return None
    calls = (node for node in ast.walk(loop) if isinstance(node, ast.Call))
    waits = {last_name(call.func): _wait(call, scope) for call in calls}
    others = {method for method, wait in waits.items() if wait is None}
    return next((wait for wait in waits.values() if wait is not None), None) if others <= _IDLES else None


def _wait(call: ast.Call, scope: Scope) -> Wait | None:
    method = call.func if isinstance(call.func, ast.Attribute) else None
    on = evaluate(method.value, scope) if method is not None else None
    if method is None or on is None:
        return None
    if on.kind == "queue" and method.attr in _GETS and on.size == 0:
        return Wait("queue")
    if on.kind == "queue" and method.attr in _PUTS and on.most is not None and on.size == on.most:
        return Wait("queue", "put")
    if on.kind == "event" and method.attr == "is_set" and on.plain is False:
        return Wait("thread")
    unfinished = on.words.rpartition(", ")[2] in ("pending", "running")
    return Wait("future") if method.attr == "done" and unfinished else None


def changes(before: Scope, now: Scope, source: Source) -> tuple[Change, ...]:
    """What the condition of the loop in which both stand goes by, and somebody else has changed in between: not a count of the loop's own
    rounds, and not the time.
    """
    if (before.frame.file, before.frame.function) != (now.frame.file, now.frame.function):
        return ()
    loop = source.loop(now.frame.line)
    if not isinstance(loop, ast.While) or loop is not source.loop(before.frame.line):
        return ()
    found: dict[str, Change] = {}
    for node in (name for test in _tests(loop) for name in names(test)):
        name, then, value = ast.unparse(node), evaluate(node, before), evaluate(node, now)
        if then is None or value is None or _measure(then) == _measure(value) or _counted(name, loop):
            continue
        found[name] = Change(Variable(name, now.frame.function, now.frame, value), then)
    return tuple(found.values())


def _tests(loop: ast.While) -> Iterator[ast.expr]:
    """The conditions by which it ends."""
    yield loop.test
    for one in loop.body:
        if isinstance(one, ast.If) and any(isinstance(node, (ast.Break, ast.Return)) for node in ast.walk(one)):
            yield one.test


def _measure(value: Value) -> float | None:
    """A number, or how much is in it. What a text says may change with the time of day, and tells nothing."""
    if value.kind == "plain" and isinstance(value.plain, (int, float)):
        return value.plain
    return value.size if value.kind in ("items", "pairs", "queue") else None


def _counted(name: str, loop: ast.While) -> bool:
    """Whether the loop itself makes it what it is, by counting its rounds or by the clock: it calls clocks for it, or nothing."""
    made = [value for node in ast.walk(loop) for target, value in assigned(node) if ast.unparse(target) == name]
    made += [n.value for n in ast.walk(loop) if isinstance(n, ast.AugAssign) and ast.unparse(n.target) == name]
    return bool(made) and all(called(value) <= _CLOCKS | _COMPUTES for value in made)
