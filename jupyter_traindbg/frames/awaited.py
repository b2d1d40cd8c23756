"""What a call waits for that has no Python frame of its own, by the object that it is a method of: a `Work` of torch's, or a store.

A `Work` knows its operation and not its peer. That is in the source, where the work was made: the call of ``isend`` or ``irecv`` whose
result came to be the name at which the thread waits, through lists, loops and the arguments of the functions on the stack.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..model import Scope, Value, Wait
from .evaluating import evaluate, plain_of
from .syntax import FUNCTIONS, Function, Source, last_name, own

__all__ = ["Awaited", "awaited"]

_WAITS = ("wait", "get")
_TRANSFERS = {"isend": "dst", "irecv": "src"}
_OP_OF = {"SEND": "isend", "RECV": "irecv", "RECVANYSOURCE": "irecv"}
_COLLECTIVE_OF = {
    "ALLREDUCE": "all_reduce",
    "ALLREDUCE_COALESCED": "all_reduce_coalesced",
    "BROADCAST": "broadcast",
    "REDUCE": "reduce",
    "ALLGATHER": "all_gather",
    "_ALLGATHER_BASE": "all_gather_into_tensor",
    "ALLGATHER_COALESCED": "all_gather_coalesced",
    "GATHER": "gather",
    "SCATTER": "scatter",
    "REDUCE_SCATTER": "reduce_scatter",
    "_REDUCE_SCATTER_BASE": "reduce_scatter_tensor",
    "ALLTOALL_BASE": "all_to_all_single",
    "ALLTOALL": "all_to_all",
    "BARRIER": "barrier",
}
_PASSING_ON = ("reversed", "list", "tuple", "sorted", "filter")
MOST_STEPS = 12
"""So far a work is followed back."""


@dataclass(frozen=True)
class Awaited:
    """``peer``: the other rank of a send or receive, and ``tag`` its tag, where they are known."""

    wait: Wait
    peer: int | None = None
    tag: int | None = None


class _Transfer(NamedTuple):
    op: str
    peer: int | None
    tag: int | None


class _At(NamedTuple):
    """An expression, and in which of the scopes it stands."""

    node: ast.expr
    scope: int


def awaited(scopes: Sequence[Scope], sources: Mapping[str, Source]) -> Awaited | None:
    """What the innermost of `scopes` waits for, which is the innermost function of its thread; None where it is neither work nor store."""
    source = sources.get(scopes[0].frame.file) if scopes and scopes[0].depth == 0 else None
    if source is None:
        return None
    call = source.call(scopes[0].frame.line, scopes[0].reach, _WAITS)
    if call is None or not isinstance(call.func, ast.Attribute) or call.func.attr not in _WAITS:
        return None
    return _Reading(scopes, sources).told(call, call.func)


class _Reading:
    def __init__(self, scopes: Sequence[Scope], sources: Mapping[str, Source]) -> None:
        self._scopes, self._sources = scopes, sources

    def told(self, call: ast.Call, method: ast.Attribute) -> Awaited | None:
        on = evaluate(method.value, self._scopes[0])
        if on is not None and on.kind == "store":
            keys = evaluate(call.args[0], self._scopes[0]) if call.args else None
            return Awaited(Wait("store", method.attr, _keys(keys)))
        if method.attr != "wait" or (on is not None and on.kind != "work"):
            return None
        op = on.op if on is not None else ""
        if op in _COLLECTIVE_OF:
            return Awaited(Wait("collective", _COLLECTIVE_OF[op]))
        made = [t for t in self._transfers(_At(method.value, 0), on) if not op or t.op == _OP_OF.get(op)]
        name = _OP_OF.get(op) or next(iter({t.op for t in made}), "")
        if not name:
            return None
        peers, tags = {t.peer for t in made}, {t.tag for t in made}
        return Awaited(
            Wait("peer", name),
            peers.pop() if len(peers) == 1 else None,
            tags.pop() if len(tags) == 1 else None,
        )

    # --- where a work was made

    def _transfers(self, work: _At, value: Value | None) -> list[_Transfer]:
        found: list[_Transfer] = []
        for made in self._made(work, MOST_STEPS):
            if last_name(made.node.func) in _TRANSFERS:  # type: ignore[attr-defined]
                found.append(self._transfer(made))
            else:
                found += self._of_batch(made)
        return found

    def _made(self, at: _At, left: int) -> Iterator[_At]:
        """The calls that may have made what `at` is."""
        node = at.node
        if left == 0:
            return
        if isinstance(node, ast.Call):
            if last_name(node.func) in (*_TRANSFERS, "batch_isend_irecv"):
                yield at
        elif isinstance(node, ast.IfExp):
            for branch in (node.body, node.orelse):
                yield from self._made(_At(branch, at.scope), left - 1)
        elif isinstance(node, ast.Subscript):
            yield from self._in(_At(node.value, at.scope), left - 1)
        elif isinstance(node, ast.Name):
            for bound in self._bound(node.id, at.scope):
                yield from (self._in if bound.each else self._made)(bound.at, left - 1)

    def _in(self, at: _At, left: int) -> Iterator[_At]:
        """The calls that may have made what is in the sequence `at`."""
        node = at.node
        if left == 0:
            return
        if isinstance(node, (ast.List, ast.Tuple)):
            for part in node.elts:
                yield from self._made(_At(part, at.scope), left - 1)
        elif isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            yield from self._made(_At(node.elt, at.scope), left - 1)
        elif isinstance(node, ast.Call) and last_name(node.func) in _PASSING_ON and node.args:
            yield from self._in(_At(node.args[-1 if last_name(node.func) == "filter" else 0], at.scope), left - 1)
        elif isinstance(node, ast.Call):
            yield from self._made(at, left - 1)
        elif isinstance(node, ast.IfExp):
            for branch in (node.body, node.orelse):
                yield from self._in(_At(branch, at.scope), left - 1)
        elif isinstance(node, ast.Name):
            for bound in self._bound(node.id, at.scope):
                if not bound.each:
                    yield from self._in(bound.at, left - 1)
            for added in self._added(node.id, at.scope):
                yield from (self._in if added.each else self._made)(added.at, left - 1)

    def _bound(self, name: str, scope: int) -> Iterator[_Bound]:
        function = self._function(scope)
        if function is None:
            return
        for node in own(function):
            if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
                yield _Bound(_At(node.value, scope), each=False)
            elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
                if last_name(node.target) == name and node.value is not None:
                    yield _Bound(_At(node.value, scope), each=False)
            elif isinstance(node, ast.For) and isinstance(node.target, ast.Name) and node.target.id == name:
                yield _Bound(_At(node.iter, scope), each=True)
        given = self._given(function, name, scope)
        if given is not None:
            yield _Bound(given, each=False)

    def _added(self, name: str, scope: int) -> Iterator[_Bound]:
        """What is put into the list of that name."""
        function = self._function(scope)
        for node in own(function) if function is not None else ():
            if isinstance(node, ast.AugAssign) and last_name(node.target) == name:
                yield _Bound(_At(node.value, scope), each=True)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
                is_that = last_name(node.func.value) == name
                if is_that and node.func.attr in ("append", "extend"):
                    yield _Bound(_At(node.args[0], scope), each=node.func.attr == "extend")

    def _function(self, scope: int) -> Function | None:
        frame = self._scopes[scope].frame
        source = self._sources.get(frame.file)
        return source.function(frame.line) if source is not None else None

    def _given(self, function: Function, name: str, scope: int) -> _At | None:
        """The argument for the parameter `name`, where the caller is the next of the scopes."""
        if not isinstance(function, FUNCTIONS) or scope + 1 >= len(self._scopes):
            return None
        caller = self._scopes[scope + 1]
        source = self._sources.get(caller.frame.file)
        if source is None or caller.depth != self._scopes[scope].depth + 1:
            return None
        call = source.call(caller.frame.line, caller.reach, (function.name,))
        argument = None if call is None else _argument(function, name, call)
        return None if argument is None else _At(argument, scope + 1)

    # --- what was transferred

    def _transfer(self, made: _At) -> _Transfer:
        call = made.node
        assert isinstance(call, ast.Call)
        op = last_name(call.func)
        return _Transfer(
            op, self._number(call, _TRANSFERS[op], 1, made.scope), self._number(call, "tag", 3, made.scope, 0)
        )

    def _of_batch(self, made: _At) -> Iterator[_Transfer]:
        """The operations that were given to ``batch_isend_irecv``."""
        call = made.node
        assert isinstance(call, ast.Call)
        given = call.args[0] if call.args else None
        if given is None:
            return
        value = evaluate(given, self._scopes[made.scope])
        if value is not None and value.parts and all(part.kind == "exchange" for part in value.parts.values()):
            yield from (_Transfer(part.op, part.peer, part.tag) for part in value.parts.values())
        elif isinstance(given, ast.List):
            for part in given.elts:
                if isinstance(part, ast.Call) and last_name(part.func) == "P2POp" and part.args:
                    peer, tag = (
                        self._number(part, n, i, made.scope, d) for n, i, d in (("peer", 2, None), ("tag", 4, 0))
                    )
                    yield _Transfer(last_name(part.args[0]), peer, tag)

    def _number(self, call: ast.Call, name: str, index: int, scope: int, default: int | None = None) -> int | None:
        """An argument of `call`, as far as its variables are still what they were then."""
        named = next((k.value for k in call.keywords if k.arg == name), None)
        node = named if named is not None else call.args[index] if index < len(call.args) else None
        if node is None:
            return default
        names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        if any(self._has_changed(one, call, scope) for one in names):
            return None
        found = plain_of(evaluate(node, self._scopes[scope]))
        return found if type(found) is int else None

    def _has_changed(self, name: str, call: ast.Call, scope: int) -> bool:
        """Whether the variable may have got another value since `call`: by its loop, or by a line between that and the one under way."""
        function, line = self._function(scope), self._scopes[scope].frame.line
        for node in own(function) if function is not None else ():
            if isinstance(node, (ast.comprehension, ast.For)) and name in _names_of(node.target):
                within = isinstance(node, ast.For) and node.lineno <= line <= (node.end_lineno or line)
                if not within or call.lineno > line:
                    return True
            elif isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.NamedExpr)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                since = node.lineno > call.lineno if line >= call.lineno else True
                if since and any(name in _names_of(target) for target in targets):
                    return True
        return False


def _names_of(target: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}


class _Bound(NamedTuple):
    """What a name is bound to, or, with `each`, what it runs through."""

    at: _At
    each: bool


def _argument(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str, call: ast.Call) -> ast.expr | None:
    """What `call` of `function` gives for the parameter `name`."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    if names[:1] in (["self"], ["cls"]) and isinstance(call.func, ast.Attribute):
        names = names[1:]
    before = names.index(name) if name in names else len(call.args)
    if before >= len(call.args) or any(isinstance(a, ast.Starred) for a in call.args[: before + 1]):
        return None
    return call.args[before]


def _keys(value: Value | None) -> str:
    """``epoch-17``, ``a, b``; empty where they are not known."""
    parts = list(value.parts.values()) if value is not None and value.kind == "items" else [value]
    words = [part.plain for part in parts if part is not None and isinstance(part.plain, str)]
    return ", ".join(words) if len(words) == len(parts) else ""
