"""Find the live models, optimizers, schedulers, loaders and gradient scalers of this process, wherever they live.

Cheapest first: the optimizers that stepped through our hooks; the locals of running frames and what hangs on their attributes; then
one walk over everything the garbage collector tracks (which ``gc.freeze()`` hides, hence the frames). Only weak references are kept.
"""

from __future__ import annotations

import gc
import math
import sys
import time
import types
import weakref
from typing import Any, Dict, Iterable, Iterator, List, Optional, Set, Tuple

from .safepoint import SafePoints

CO_OPTIMIZED = 0x1
ATTRIBUTE_DEPTH = 3
SEARCH_EVERY_S = 2.0
MOST_OBJECTS = 20_000
WRAPPERS = ("DistributedDataParallel", "DataParallel", "OptimizedModule")
WRAPPER_PARTS = ("_orig_mod", "_fsdp_wrapped_module")

KINDS: Dict[str, Tuple[str, str]] = {
    "models": ("torch.nn.modules.module", "Module"),
    "optimizers": ("torch.optim.optimizer", "Optimizer"),
    "schedulers": ("torch.optim.lr_scheduler", "LRScheduler"),
    "loaders": ("torch.utils.data.dataloader", "DataLoader"),
    "scalers": ("torch.amp.grad_scaler", "GradScaler"),
}


class Objects:
    """The live training objects. `find` fills it; the properties read it."""

    def __init__(self, safepoints: SafePoints) -> None:
        self._safepoints = safepoints
        self._found: Dict[str, Dict[int, Any]] = {kind: {} for kind in KINDS}
        self._names: Dict[int, Tuple[Any, str]] = {}
        self._searched_s = -math.inf
        self._searched_running = False

    def clear(self) -> None:
        self.__init__(self._safepoints)  # type: ignore[misc]

    def find(self) -> Objects:
        """Search, unless what an earlier search found still serves. Costs 0.1 ms to 10 ms by frames, 0.1 us per object by gc.

        A search during the job's start-up sees half of it, so the first one after a step was seen counts anew.
        """
        running = self._safepoints.steps > 0
        settled = self._searched_running or not running
        if settled and time.monotonic() - self._searched_s < SEARCH_EVERY_S and self.optimizers() and self.models():
            return self
        classes = _classes()
        if classes:
            self._keep(classes, _from_frames())
            essential = self._live("optimizers") and self._live("models")
            rest = self._live("schedulers") and self._live("loaders")
            if not essential or (not rest and not (self._searched_running and settled)):
                self._keep(classes, gc.get_objects())
            self._searched_s, self._searched_running = time.monotonic(), running
        return self

    def optimizers(self) -> List[Any]:
        """Live optimizers that hold parameters, those that stepped first; wrappers of another one are left out."""
        stepped = [o for o in (r() for r in list(self._safepoints.optimizers.values())) if o is not None]
        found = stepped + [o for o in self._live("optimizers") if not any(o is s for s in stepped)]
        wrapped = {id(getattr(o, "optimizer", None)) for o in found}
        inner = [o for o in found if not _wraps(o, found)]
        return [o for o in inner if o.param_groups] if inner else [o for o in found if id(o) not in wrapped]

    def models(self) -> List[Any]:
        """Root modules with parameters, the one that best covers the optimizers' parameters first."""
        modules = self._live("models")
        children = {id(c) for m in modules for c in m._modules.values()}
        wanted = {id(p) for o in self.optimizers() for g in o.param_groups for p in g["params"]}
        roots = []
        for module in modules:
            if id(module) in children:
                continue
            own = {id(p) for p in module.parameters()}
            if own and (own & wanted or not wanted):
                roots.append((len(own & wanted), -len(own), module))
        roots.sort(key=lambda r: r[:2], reverse=True)
        return [module for _, _, module in roots]

    def schedulers(self, optimizer: Any) -> List[Any]:
        """The learning-rate schedulers of `optimizer`; members of a SequentialLR or ChainedScheduler are left to it."""
        own = [s for s in self._live("schedulers") if getattr(s, "optimizer", None) is optimizer]
        members = {id(m) for s in own for m in getattr(s, "_schedulers", ())}
        return [s for s in own if id(s) not in members]

    def loaders(self) -> List[Any]:
        return self._live("loaders")

    def scalers(self) -> List[Any]:
        return self._live("scalers")

    def names(self) -> Dict[int, str]:
        """``id(parameter) -> qualified name`` without wrapper prefixes, for every parameter of every root model.

        Names once learnt are kept: FSDP2 in mid-forward shows other parameter objects than the optimizer holds.
        """
        for model in reversed(self.models()):
            for name, parameter in unwrap(model).named_parameters():
                self._names[id(parameter)] = (weakref.ref(parameter), strip(name))
        return {key: name for key, (ref, name) in self._names.items() if ref() is not None}

    def _live(self, kind: str) -> List[Any]:
        return [o for o in (r() for r in list(self._found[kind].values())) if o is not None]

    def _keep(self, classes: List[Tuple[str, type]], candidates: Iterable[Any]) -> None:
        for candidate in candidates:
            cls = type(candidate)  # not isinstance: a proxy's __class__ may run user code
            for kind, wanted in classes:
                if issubclass(cls, wanted):
                    try:
                        self._found[kind][id(candidate)] = weakref.ref(candidate)
                    except TypeError:
                        pass  # a class with __slots__ and no __weakref__ cannot be followed without keeping it alive


def unwrap(model: Any) -> Any:
    """The user's own module inside DDP, DataParallel and torch.compile."""
    while type(model).__name__ in WRAPPERS:
        model = model._modules.get("module") or model._modules["_orig_mod"]
    return model


def strip(name: str) -> str:
    """A parameter's name without what FSDP1 and torch.compile put into its middle."""
    return ".".join(part for part in name.split(".") if part not in WRAPPER_PARTS)


def _wraps(optimizer: Any, others: List[Any]) -> bool:
    """True for accelerate's and Lightning's wrappers, which hold the optimizer that really steps."""
    held = [vars(optimizer).get(name) for name in ("optimizer", "_optimizer")]
    return any(h is not None and h is not optimizer and any(h is o for o in others) for h in held)


def _classes() -> List[Tuple[str, type]]:
    found = []
    for kind, (module, name) in KINDS.items():
        cls = getattr(sys.modules.get(module), name, None)
        if isinstance(cls, type):
            found.append((kind, cls))
    return found


def _from_frames() -> Iterator[Any]:
    """Every value reachable from a running frame, or from ``__main__``, by a few attributes."""
    seen: Set[int] = set()
    queue: List[Tuple[Any, int]] = []
    for frame in sys._current_frames().values():
        step: Optional[types.FrameType] = frame
        while step is not None:
            queue.extend((value, 0) for value in _locals(step))
            step = step.f_back
    queue.extend((value, 0) for value in list(vars(sys.modules["__main__"]).values()))
    while queue and len(seen) < MOST_OBJECTS:
        value, depth = queue.pop()
        if id(value) in seen or isinstance(value, (type, types.ModuleType, types.FunctionType, str, bytes, int, float)):
            continue
        seen.add(id(value))
        yield value
        if depth < ATTRIBUTE_DEPTH:
            queue.extend((v, depth + 1) for v in _parts(value))


def _locals(frame: types.FrameType) -> List[Any]:
    """The values of a frame's locals, leaving the frame as it was.

    Before Python 3.13 reading ``f_locals`` of a function leaves a dict on the frame that keeps all its values alive; where nobody
    else holds that dict it is emptied again. (Module and class frames hand out their real namespace.)
    """
    local = frame.f_locals
    values = list(local.values())
    if sys.version_info < (3, 13) and frame.f_code.co_flags & CO_OPTIMIZED and sys.getrefcount(local) <= 3:
        local.clear()
    return values


def _parts(value: Any) -> List[Any]:
    if isinstance(value, dict):
        return list(value.values())[:64]
    if isinstance(value, (list, tuple)):
        return list(value[:64])
    try:
        attributes = object.__getattribute__(value, "__dict__")  # past any user-defined __getattr__
    except (AttributeError, TypeError):
        return []
    return list(attributes.values()) if isinstance(attributes, dict) else []
