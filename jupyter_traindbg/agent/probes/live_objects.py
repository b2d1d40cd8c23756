"""The objects that Python's garbage collector tracks, counted by type; tensors by shape, type and device, with their bytes."""

from __future__ import annotations

import collections
import contextlib
import gc
import itertools
import sys
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Set, Tuple

from ..attributes import class_name, full_name
from ..saying import said
from ..tensors import extent, shard

if TYPE_CHECKING:
    from ..core import Agent

COST = "on the training thread, once: 0.15 us an object (0.15 s for a million) and 5 us a tensor, of 20,000 at most"
MOST_OBJECTS, MOST_TENSORS = 3_000_000, 20_000
"""Of more objects each n-th is looked at; of more tensors the rest is only counted."""
MOST_TYPES, MOST_SHAPES = 500, 500
"""So many are told, the most numerous and the largest ones; the others together."""

OTHERS = "(others)"

Key = Tuple[str, str, Tuple[int, ...], str, str, bool]


def run(agent: Agent, deadline_s: float = 10.0) -> Dict[str, Any]:
    """Counted after a step or, where the process stands still, straight away. Each object once: in ``types``, or in ``tensors``. Ints,
    texts and the like are not tracked, and not counted.
    """
    out: Dict[str, Any] = {"types": [], "tensors": [], "objects": 0, "note": ""}

    def count() -> None:
        out.update(_count())

    where = agent.safepoints.run_safely(count, deadline_s) if agent.safepoints.active else _at_once(count)
    out["where"] = where
    if where is None:
        late = f"{deadline_s:.1f}"
        out["note"] = said("not counted: no step came in {deadline} s, and the process is busy", deadline=late)
    return out


def _at_once(count: Any) -> str:
    """In a process without torch nothing is harmed by looking."""
    count()
    return "without torch"


def _count() -> Dict[str, Any]:
    """In C as far as it goes: what is held meanwhile is held for milliseconds."""
    everything = gc.get_objects()
    total = len(everything)
    every = max(1, -(-total // MOST_OBJECTS))
    looked_at = everything if every == 1 else everything[::every]
    del everything
    types = list(map(type, looked_at))
    counts = collections.Counter(map(id, types))
    of_id = dict(zip(map(id, types), types))
    base = getattr(sys.modules.get("torch"), "Tensor", None)
    tensor_types = {key for key, cls in of_id.items() if base is not None and issubclass(cls, base)}
    tensors = list(itertools.compress(looked_at, map(tensor_types.__contains__, map(id, types))))
    del looked_at, types
    told = [[full_name(of_id[key]), count * every] for key, count in counts.most_common() if key not in tensor_types]
    return {
        "types": _bounded(told, MOST_TYPES),
        "tensors": _alike(tensors, every) if tensors else [],
        "objects": total,
        "note": said("of each {every} objects one was looked at: the counts are estimates", every=every)
        if every > 1
        else "",
    }


def _bounded(told: List[List[Any]], most: int) -> List[List[Any]]:
    rest = told[most:]
    return [*told[:most], [OTHERS, sum(count for _, count in rest)]] if rest else told


# --- tensors -------------------------------------------------------------------------------------------------------


def _alike(tensors: List[Any], every: int) -> List[Dict[str, Any]]:
    """Those that are alike together, the largest first; the others in a row of their own. On the training thread."""
    sizes: Dict[Key, List[int]] = {}
    seen: Set[int] = set()
    with _plainly(sys.modules["torch"]):
        for tensor in tensors[:MOST_TENSORS]:
            key, size, address = _about(tensor)
            of_key = sizes.setdefault(key, [0, 0])
            of_key[0] += 1
            if address is None or address not in seen:
                of_key[1] += size
            if address is not None:
                seen.add(address)
    rows = sorted(sizes.items(), key=lambda item: -item[1][1])
    names = ("type", "layout", "shape", "dtype", "device", "requires_grad")
    told = [
        {**dict(zip(names, key)), "count": count * every, "bytes": size * every}
        for key, (count, size) in rows[:MOST_SHAPES]
    ]
    others = len(tensors) - sum(count for _, (count, _) in rows[:MOST_SHAPES])
    rest: Dict[str, Any] = {**dict.fromkeys(names), "type": OTHERS, "count": others * every, "bytes": None}
    return [*told, rest] if others else told


def _plainly(torch: Any) -> Any:
    """Meanwhile no subclass of a tensor gets to see what is asked of it."""
    disabled = getattr(torch._C, "DisableTorchFunctionSubclass", None)
    return contextlib.nullcontext() if disabled is None else disabled()


def _about(tensor: Any) -> Tuple[Key, int, Optional[int]]:
    """What it is, how many bytes its values take, and where they begin; no address of one without values."""
    part = shard(tensor)
    shape, size, address = extent(tensor)
    kind = str(part.dtype).replace("torch.", "")
    layout = str(part.layout).replace("torch.", "")
    return (class_name(tensor), layout, shape, kind, str(part.device), bool(part.requires_grad)), size, address
