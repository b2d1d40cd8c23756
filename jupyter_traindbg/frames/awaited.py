"""What a call waits for that has no Python frame of its own, by the object that it is a method of: a `Work` of torch's, or a store.

A `Work` knows its operation and not its peer, which is in the source where it was made: `transfers` finds that.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..model import Scope, Wait
from .evaluating import evaluate, keys_words
from .places import At, Code, Place
from .syntax import Source
from .transfers import transfers

__all__ = ["Awaited", "awaited"]

_WAITS = ("wait", "get")
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
    """``peer``: the other rank of a send or receive, and ``tag`` its tag, where they are known."""

    wait: Wait
    peer: int | None = None
    tag: int | None = None


def awaited(
    scopes: Sequence[Scope], sources: Mapping[str, Source], seat: Mapping[str, int] | None = None
) -> Awaited | None:
    """What the innermost of `scopes` waits for, which is the innermost function of its thread; None where it is neither work nor store.

    ``seat``: what torch's functions of these names return in that process: ``get_rank``, ``get_world_size``.
    """
    source = sources.get(scopes[0].frame.file) if scopes and scopes[0].depth == 0 else None
    if source is None:
        return None
    call = source.call(scopes[0].frame.line, scopes[0].reach, _WAITS)
    if call is None or not isinstance(call.func, ast.Attribute) or call.func.attr not in _WAITS:
        return None
    code = Code(scopes, sources, seat or {})
    place = code.live(0)
    return None if place is None else _told(call, call.func, code, place)


def _told(call: ast.Call, method: ast.Attribute, code: Code, place: Place) -> Awaited | None:
    on = evaluate(method.value, place.scope)
    if on is not None and on.kind == "store":
        keys = evaluate(call.args[0], place.scope) if call.args else None
        return Awaited(Wait("store", method.attr, keys_words(keys)))
    if method.attr != "wait" or (on is not None and on.kind != "work"):
        return None
    op, ident = ("", 0) if on is None else (on.op, on.ident)
    if op in _COLLECTIVE_OF:
        return Awaited(Wait("collective", _COLLECTIVE_OF[op]))
    made = [t for t in transfers(At(method.value, place), code, ident) if not op or t.op == _OP_OF.get(op)]
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
