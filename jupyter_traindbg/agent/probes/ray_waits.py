"""Which threads of this process sit in ``ray.get`` or ``ray.wait``, and on whose results."""

from __future__ import annotations

import os
import sys
from types import FrameType
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Tuple

from .. import reachable
from ..attributes import MISSING, attribute, threads, users_place

if TYPE_CHECKING:
    from ..core import Agent

COST = "0.1 ms and 1 us for each reference that is waited for; reads locals of ray's own frames, calls nothing of ray's that waits"


def run(agent: Agent, *, most: int = 1000) -> Dict[str, Any]:
    """``{"waits": [...]}``, one entry for each thread that is inside such a call; empty where none is, or ray is not imported.

    Each has ``thread`` (name), ``tid``, ``call`` (``"ray.get"`` or ``"ray.wait"``), ``where`` (``"file:line function"``, the user's
    innermost frame, or None), ``refs`` (how many are waited for), ``num_returns`` (how many of them suffice), ``timeout_s`` (None: for
    ever), and ``waits_for``: of the first `most` references ``{"object_id", "task_id", "actor_id"}``, in hex. ``actor_id`` is None for
    the result of a plain task. How many are ready is not known here (asking would need ray's own locks): join ``task_id`` with the
    tasks' states. A coroutine that awaits a reference is told by `coroutines`.
    """
    if "ray._raylet" not in sys.modules:
        return {"waits": []}
    known = threads()
    waits = []
    for ident, frame in reachable.frames_of_others().items():
        found = _call(frame)
        if found is not None:
            name, tid = known.get(ident, ("unknown to threading", None))
            waits.append({"thread": name, "tid": tid, **_told(*found, most)})
    return {"waits": waits}


DEPTH = 8
"""A blocking call of ray's is that near to the top of the stack."""
_WORKER = os.path.join("ray", "_private", "worker.py")


def _call(innermost: FrameType) -> Optional[Tuple[str, FrameType, Dict[str, Any]]]:
    """The call, ray's frame, and its locals."""
    for depth, (frame, local) in enumerate(reachable.look_at_stack(innermost)):
        if depth >= DEPTH:
            break
        if frame.f_code.co_filename.endswith(_WORKER):
            if frame.f_code.co_name == "get_objects":
                return "ray.get", frame, local
            if frame.f_code.co_name == "wait" and "ray_waitables" in local:
                return "ray.wait", frame, local
    return None


def _told(call: str, frame: FrameType, local: Dict[str, Any], most: int) -> Dict[str, Any]:
    refs: Any = local.get("object_refs" if call == "ray.get" else "ray_waitables")
    listed: List[Any] = list(refs) if type(refs) in (list, tuple) else []
    wanted = len(listed) if call == "ray.get" else local.get("num_returns")
    timeout = local.get("timeout")
    if call == "ray.wait" and timeout == _FOR_EVER_S:
        timeout = None
    return {
        "call": call,
        "where": users_place(frame),
        "refs": len(listed),
        "num_returns": wanted if isinstance(wanted, int) else None,
        "timeout_s": timeout if isinstance(timeout, (int, float)) and timeout >= 0 else None,
        "waits_for": list(told_of(listed[:most])),
    }


_FOR_EVER_S = 10**6
"""What ray itself puts in place of no timeout."""
_TASK_HEX, _UNIQUE_HEX, _NIL = 48, 16, 24 * "f"
"""An object id begins with the id of the task that makes it, and that ends with the id of the actor that runs it."""


def told_of(refs: List[Any]) -> Iterator[Dict[str, Any]]:
    """``{"object_id", "task_id", "actor_id"}`` of each ``ObjectRef``; what is none is left out."""
    for ref in refs:
        hexadecimal = _hex(ref)
        if hexadecimal is not None:
            task = hexadecimal[:_TASK_HEX]
            yield {"object_id": hexadecimal, "task_id": task, "actor_id": actor_of(task)}


def actor_of(task_id: str) -> Optional[str]:
    """The id of the actor that runs a task; None for a plain one."""
    actor = task_id[_UNIQUE_HEX:]
    return None if actor.startswith(_NIL) else actor


def _hex(ref: Any) -> Optional[str]:
    kind = vars(sys.modules["ray._raylet"]).get("ObjectRef")
    if type(ref) is not kind:
        ref = attribute(ref, "_generator_ref")  # an ObjectRefGenerator: the reference that stands for all
    return None if ref is MISSING or type(ref) is not kind else kind.hex(ref)


__all__ = ["COST", "actor_of", "run", "told_of"]
