"""What a call waits for that has no Python frame of its own, by the object that it is a method of: a `Work` of torch's, or a store.

A `Work` knows its operation and not its peer, which is in the source where it was made: `transfers` finds that.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..model import Scope, Wait
from .asking import asked_for
from .evaluating import evaluate, keys_words
from .places import At, Code, Place
from .syntax import Source
from .transfers import transfers

__all__ = ["Awaited", "awaited", "polls_for_works"]

_WAITS = ("wait", "get")
_DONE = "is_completed"
"""By which a loop asks a `Work` whether it is done."""
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


@dataclass(frozen=True)
class Awaited:
    """``peer``: the other rank of a send or receive, and ``tag`` its tag, where they are known. ``polled``: a loop asks for it again and
    again, and sleeps in between.
    """

    wait: Wait
    peer: int | None = None
    tag: int | None = None
    polled: bool = False


def awaited(
    scopes: Sequence[Scope], sources: Mapping[str, Source], seat: Mapping[str, int] | None = None
) -> Awaited | None:
    """What the innermost of `scopes` waits for, which is the innermost function of its thread; None where it is neither work nor store.

    ``seat``: what torch's functions of these names return in that process: ``get_rank``, ``get_world_size``.
    """
    source = sources.get(scopes[0].frame.file) if scopes and scopes[0].depth == 0 else None
    if source is None:
        return None
    code = Code(scopes, sources, seat or {})
    place = code.live(0)
    if place is None:
        return None
    call = source.call(scopes[0].frame.line, scopes[0].reach, _WAITS)
    if call is not None and isinstance(call.func, ast.Attribute) and call.func.attr in _WAITS:
        return _told(call, call.func, code, place)
    polled = _polled(source.loop(scopes[0].frame.line), code, place)
    asked = asked_for(scopes[0], source) if polled is None else None
    return polled if asked is None else Awaited(asked, polled=True)


def polls_for_works(loop: ast.While | ast.For | ast.AsyncFor) -> bool:
    """Whether it goes round until works are done: its condition asks them, or an ``if`` right in it."""
    tests = [loop.test] if isinstance(loop, ast.While) else []
    tests += [one.test for one in loop.body if isinstance(one, ast.If)]
    return any(isinstance(node, ast.Attribute) and node.attr == _DONE for test in tests for node in ast.walk(test))


def _polled(loop: ast.While | ast.For | None, code: Code, place: Place) -> Awaited | None:
    """The work that a loop asks whether it is done: one by its name, or of several the first that is known."""
    inside = list(ast.walk(loop)) if loop is not None and polls_for_works(loop) else []
    one_by_one = {
        ast.unparse(node.target): node.iter for node in inside if isinstance(node, (ast.comprehension, ast.For))
    }
    for asked in (node.value for node in inside if isinstance(node, ast.Attribute) and node.attr == _DONE):
        several = one_by_one.get(ast.unparse(asked))
        held = evaluate(asked if several is None else several, place.scope)
        parts = held.parts.values() if held is not None and held.kind == "items" else (held,)
        work = next((part for part in parts if part is not None and part.kind == "work"), None)
        if work is not None:
            told = _of_work(asked, work.op, work.ident, code, place)
            return None if told is None else replace(told, polled=True)
    return None


def _told(call: ast.Call, method: ast.Attribute, code: Code, place: Place) -> Awaited | None:
    on = evaluate(method.value, place.scope)
    if on is not None and on.kind == "store":
        keys = evaluate(call.args[0], place.scope) if call.args else None
        return Awaited(Wait("store", method.attr, keys_words(keys)))
    if method.attr != "wait" or (on is not None and on.kind != "work"):
        return None
    op, ident = ("", 0) if on is None else (on.op, on.ident)
    return _of_work(method.value, op, ident, code, place)


def _of_work(work: ast.expr, op: str, ident: int, code: Code, place: Place) -> Awaited | None:
    """By its operation, and where it was made; `ident` is 0, and `op` empty, of one that is not known."""
    if op in _COLLECTIVE_OF:
        return Awaited(Wait("collective", _COLLECTIVE_OF[op]))
    made = [t for t in transfers(At(work, place), code, ident) if not op or t.op == _OP_OF.get(op)]
    ops = {t.op for t in made}
    name = _OP_OF.get(op) or (ops.pop() if len(ops) == 1 else "wait" if ops else "")
    if not name:
        return None
    peers, tags = {t.peer for t in made}, {t.tag for t in made}
    return Awaited(
        Wait("peer", name),
        peers.pop() if len(peers) == 1 else None,
        tags.pop() if len(tags) == 1 else None,
    )
