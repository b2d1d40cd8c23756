"""Memory: resident set, CUDA allocator, and who holds what, counted once per storage. Reads sizes only, touches no data."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Set

from .. import cuda
from ..objects import named_parameters, walk
from ..recorder import FIELDS, OPTIMIZER_STEP, STEP
from ..resident import status_bytes
from ..saying import Text, said
from ..tensors import NO_TORCH, add_bytes, within

if TYPE_CHECKING:
    from ..core import Agent

COST = "a microsecond a tensor; on the training thread only that of the gradients"
CUDA_KEYS = (
    "allocated_bytes.all.current",
    "allocated_bytes.all.peak",
    "reserved_bytes.all.current",
    "reserved_bytes.all.peak",
    "inactive_split_bytes.all.current",
    "num_ooms",
    "num_alloc_retries",
)


def run(agent: Agent, points: int = 400, deadline_s: float = 4.0) -> Dict[str, Any]:
    """`points`: at most so many points of the curve, the newest. `deadline_s`: how long to wait for a step, to count gradients.

    The curve is that of this run (`Objects.run_began`), in which ``first_step`` is counted; ``sizes["earlier"]`` is what optimizers of
    earlier ones hold, with their parameters.
    """
    agent.keep_books()  # whoever asks for memory may ask next what grows
    sizes = {kind: {} for kind in ("parameters", "gradients", "optimizer", "buffers", "earlier")}  # type: Dict[str, Dict[str, int]]
    note = _count(agent, sizes, deadline_s) if "torch" in sys.modules else NO_TORCH
    figures = _cuda()
    columns = [FIELDS.index(f) for f in ("time_s", "rss_bytes", "cuda_allocated_bytes")]
    began = agent.objects.run_began()
    records = agent.recorder.since(max(0, began - 1))[-points:] if points > 0 else []
    return {
        "rss_bytes": status_bytes("VmRSS"),
        "peak_rss_bytes": status_bytes("VmHWM"),
        "sizes": sizes,
        "cuda": figures,
        "device_bytes": _device_bytes(figures),
        "curve": [[r[c] for c in columns] for r in records],
        "first_step": records[0][STEP] - max(0, began - 1) if records else 0,
        "own_step": records[0][OPTIMIZER_STEP] if records else None,
        "mapped_growth_bytes": agent.recorder.resident.mapped_growth_bytes(),
        "note": note,
    }


def _count(agent: Agent, sizes: Dict[str, Dict[str, int]], deadline_s: float) -> Text:
    """Fills in `sizes`; returns what has to be said of them."""
    objects = agent.objects.find()
    seen: Set[int] = set()
    optimizers, models = objects.optimizers(), objects.models()
    parameters: List[Any] = [p for o in optimizers for g in o.param_groups for p in g["params"]]
    parameters += [p for m in models for _, p in named_parameters(m)]
    by_hand = agent.safepoints.by_hand
    parameters += [] if by_hand is None else list(by_hand.param_groups[0]["params"])
    buffers = [b for m in models for _, module in walk(m) for b in list(vars(module)["_buffers"].values())]
    add_bytes(sizes["parameters"], parameters, seen)
    leaves = [p for p in parameters if p.is_leaf]  # asking any other tensor for its gradient warns

    def count() -> None:
        add_bytes(sizes["gradients"], (g for g in (p.grad for p in leaves) if g is not None), set(seen))

    counted = not leaves or agent.safepoints.run_safely(count, deadline_s)
    add_bytes(sizes["optimizer"], [t for o in optimizers for t in within(dict(o.state))], seen)
    add_bytes(sizes["buffers"], [b for b in buffers if b is not None], seen)
    for optimizer in objects.leftovers():
        left = [p for g in optimizer.param_groups for p in g["params"]]
        add_bytes(sizes["earlier"], [*left, *within(dict(optimizer.state))], seen)
    if counted:
        return ""
    return said("gradients are not counted: no optimizer step came in {deadline} s", deadline=f"{deadline_s:.1f}")


def _cuda() -> Dict[str, Dict[str, int]]:
    """The allocator's figures per device that this process uses."""
    if not cuda.in_use():
        return {}
    torch = sys.modules["torch"]
    out = {}
    for index in range(torch.cuda.device_count()):
        stats = torch.cuda.memory_stats(index)
        if stats.get("reserved_bytes.all.peak"):
            out[f"cuda:{index}"] = {key: int(stats.get(key, 0)) for key in CUDA_KEYS}
    return out


def _device_bytes(names: Iterable[str]) -> Dict[str, int]:
    """The memory of each of these devices, which this process uses; torch keeps it, no driver is asked. Nothing of one that is lost."""
    found = {}
    for name in names:
        with contextlib.suppress(RuntimeError):
            found[name] = int(sys.modules["torch"].cuda.get_device_properties(name).total_memory)
    return found
