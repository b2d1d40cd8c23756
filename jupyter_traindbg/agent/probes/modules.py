"""The modules of the models: what each is and holds, and how long its forward and backward take, watched for a few steps."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Dict, List, Tuple

from ..first_nonfinite import COMPILED
from ..module_times import ModuleTimes
from ..objects import WRAPPERS, walk
from ..saying import Text, joined, said
from ..tensors import NO_TORCH

if TYPE_CHECKING:
    from ..core import Agent

COST = "some 20 us a call of a module on the training thread in the steps that are watched; 2 us a module for the rest"
STEPS = 5


def run(agent: Agent, steps: int = STEPS, deadline_s: float = 8.0) -> Dict[str, Any]:
    """``times`` of a module: calls, backward passes, and seconds in all `steps` that were watched; ``on`` the kind of device that it is on.

    Where no step comes in time, or none is complete, ``steps`` is 0 and there are no times.
    """
    if "torch" not in sys.modules:
        return {"modules": [], "steps": 0, "note": NO_TORCH}
    models = agent.objects.find().models()
    if not models:
        return {"modules": [], "steps": 0, "note": said("no model was found")}
    watch = ModuleTimes(agent, steps)
    note = _watched(agent, watch, models, deadline_s)
    told = [
        _module(number, name, module, watch)
        for number, model in enumerate(models)
        for name, module in walk(model)
        if type(module).__name__ not in WRAPPERS  # what is in it has its name, and its times
    ]
    return {"modules": told, "steps": watch.steps, "note": note}


def _watched(agent: Agent, watch: ModuleTimes, models: List[Any], deadline_s: float) -> Text:
    """Fills in `watch`; returns what has to be said of it."""
    ends = time.monotonic() + deadline_s
    try:
        armed = agent.safepoints.run(lambda: watch.arm(models), agent.safepoints.patience_s(deadline_s))
        if armed is None:
            return said("no times: no step came meanwhile")
        watch.finished.wait(max(0.0, ends - time.monotonic()))
    finally:
        watch.disarm()
    late = said("no times: no whole step passed in {deadline} s", deadline=f"{deadline_s:.1f}")
    return joined(["" if watch.steps else late, COMPILED if watch.compiled else ""])


def _module(number: int, name: str, module: Any, watch: ModuleTimes) -> Dict[str, Any]:
    held, first = _held(module)
    times = watch.times.get(f"{number}:{name}")
    return {
        "model": number,
        "name": name,
        "kind": type(module).__name__,
        "training": bool(vars(module).get("training")),
        **held,
        "device": None if first is None else str(first.device),
        "dtype": None if first is None else str(first.dtype).replace("torch.", ""),
        "times": None if times is None else vars(times),
    }


def _held(module: Any) -> Tuple[Dict[str, int], Any]:
    """Its own parameters: how many, of how many numbers and bytes; and the first one."""
    own = [p for p in list(vars(module)["_parameters"].values()) if p is not None]
    is_lazy = sys.modules["torch"].nn.parameter.is_lazy
    known = [p for p in own if not is_lazy(p)]
    elements = [p.numel() for p in known]
    size = sum(n * p.element_size() for n, p in zip(elements, known))
    return {"parameters": len(own), "elements": sum(elements), "bytes": size}, known[0] if known else None
