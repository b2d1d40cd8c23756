"""What torch.compile is at work on in the training thread, and what it has compiled before: how long that took, and why again."""

from __future__ import annotations

import os
import sys
import time
import types
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from ..attributes import class_name
from ..reachable import frames_of_others, look_at_stack
from ..training_thread import training_thread

if TYPE_CHECKING:
    from ..core import Agent

COST = "0.1 ms; reads what torch has written down of itself, and locals of its own frames"
MOST, LONGEST = 64, 500
"""torch keeps so many compilations; characters of a reason."""
_FRAMES = os.path.join("torch", "_dynamo", "convert_frame.py")
_WRAPPERS = os.path.join("torch", "_dynamo", "external_utils.py")
_HITS = ("inductor_fx_local_cache_hit_count", "aotautograd_local_cache_hit_count", "inductor_fx_remote_cache_hit_count")
_MISSES = tuple(name.replace("_hit_", "_miss_") for name in _HITS)


def run(agent: Agent) -> Dict[str, Any]:
    """``now`` is None where the training thread compiles nothing that dynamo looks at (a graph of a backward pass has no function), else as
    each of ``past``, oldest first and `MOST` at most: ``at``, the function as file, line and name, or None; ``number``, of how many that
    were compiled of that function; ``reason``, why again; ``seconds``, of the one under way so far. ``now`` has what it ``wraps``, where
    the function is merely torch's own around a model; ``past`` have ``cached``, whether its kernels were found in a cache of torch's, None
    where none was asked, and ``ago_s``, when it began.
    """
    if "torch._dynamo.convert_frame" not in sys.modules:
        return {"now": None, "past": []}
    return {"now": _now(training_thread(agent)), "past": _past()}


def _now(thread: Optional[int]) -> Optional[Dict[str, Any]]:
    innermost = frames_of_others().get(thread) if thread is not None else None
    found = None
    for frame, local in look_at_stack(innermost) if innermost is not None else ():
        if frame.f_code.co_name == "_compile" and frame.f_code.co_filename.endswith(_FRAMES):
            found = local  # the outermost
    code = None if found is None else found.get("code")
    if found is None or not isinstance(code, types.CodeType):
        return None
    return {
        "at": [code.co_filename, code.co_firstlineno, getattr(code, "co_qualname", code.co_name)],
        "number": _number(getattr(found.get("compile_id"), "frame_compile_id", None)),
        "reason": _text(found.get("recompile_reason")),
        "seconds": _since(found.get("metrics_context")),
        "wraps": _wrapped(found.get("locals")) if code.co_filename.endswith(_WRAPPERS) else "",
    }


def _wrapped(local: Any) -> str:
    """The class of a model, or the name of a function, around which `torch._dynamo.external_utils.wrap_inline` has put one of its own."""
    inner = local.get("fn") if type(local) is dict else None
    if inner is None:
        return ""
    if isinstance(inner, types.FunctionType):
        return inner.__qualname__
    return class_name(inner.__self__ if isinstance(inner, types.MethodType) else inner)


def _since(context: Any) -> Optional[float]:
    """How long what torch measures a compilation with has been at it."""
    began = getattr(context, "_start_time_ns", None)
    if type(began) is not int or began <= 0 or not getattr(context, "_level", 0):
        return None
    return max(0.0, time.time() - began / 1e9)


def _past() -> List[Dict[str, Any]]:
    kept = getattr(sys.modules.get("torch._dynamo.utils"), "_compilation_metrics", ())
    return [_told(one) for one in list(kept)[-MOST:]]


def _told(one: Any) -> Dict[str, Any]:
    name, file, line = (getattr(one, f"co_{what}", None) for what in ("name", "filename", "firstlineno"))
    took = getattr(one, "duration_us", None)
    took = getattr(one, "entire_frame_compile_time_s", None) if took is None else took / 1e6
    began = getattr(one, "start_time", None)
    words = str(getattr(one, "compile_id", "")).rpartition("/")[2]
    hits, misses = _sum(one, _HITS), _sum(one, _MISSES)
    return {
        "at": [file, line, name] if name and file and type(line) is int else None,
        "number": int(words) + 1 if words.isdigit() else None,
        "reason": _text(getattr(one, "recompile_reason", None)),
        "seconds": took,
        "cached": None if not hits + misses else not misses,
        "ago_s": None if began is None else max(0.0, time.time() - began),
    }


def _sum(one: Any, names: Any) -> int:
    return sum(getattr(one, name, None) or 0 for name in names)


def _number(of_function: Any) -> Optional[int]:
    return of_function + 1 if type(of_function) is int else None


def _text(value: Any) -> str:
    return value[:LONGEST] if isinstance(value, str) else ""


__all__ = ["COST", "run"]
