"""Find the live models, optimizers, schedulers, loaders and gradient scalers of this process, wherever they live.

Cheapest first: the optimizers that stepped through our hooks; the locals of running frames and what hangs on their attributes; then
one walk over everything the garbage collector tracks (which ``gc.freeze()`` hides, hence the frames). Only weak references are kept.
"""

from __future__ import annotations

import math
import sys
import time
import weakref
from typing import TYPE_CHECKING, Any, Container, Dict, Iterable, Iterator, List, Optional, Set, Tuple

from . import reachable, runs
from .attributes import MISSING, attribute, attributes, classes, defined
from .safepoint import SafePoints

if TYPE_CHECKING:
    from .recorder import Recorder

SEARCH_EVERY_S = 2.0
SCAN_SHARE = 0.02
"""The share of the time that walks over the collector's objects may take while something is still missing."""
REPLACED_SHARE = 0.002
"""The same of searches for what a program has replaced, on its training thread."""

WRAPPERS = {
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "OptimizedModule": "_orig_mod",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "CheckpointWrapper": "_checkpoint_wrapped_module",
}
"""Modules that wrap one other and put its attribute's name into the names of its parameters."""

KINDS: Dict[str, Tuple[str, str]] = {
    "models": ("torch.nn.modules.module", "Module"),
    "optimizers": ("torch.optim.optimizer", "Optimizer"),
    "schedulers": ("torch.optim.lr_scheduler", "LRScheduler"),
    "loaders": ("torch.utils.data.dataloader", "DataLoader"),
    "scalers": ("torch.amp.grad_scaler", "GradScaler"),
}

STATEFUL = "stateful"
"""Objects of other classes that have a ``state_dict()`` and a ``load_state_dict()``."""


class Objects:
    """The live training objects. `find` fills it; the other methods read it."""

    def __init__(self, safepoints: SafePoints, recorder: Recorder) -> None:
        self._safepoints, self._recorder = safepoints, recorder
        self._found: Dict[str, Dict[int, Any]] = {kind: {} for kind in (*KINDS, STATEFUL)}
        self._near: Set[int] = set()
        """The ``id`` of everything that the program's variables led to when we searched last."""
        self._asked_at = -1
        """After which step `forgotten` has searched."""
        self._left: Set[int] = set()
        self._left_for: Tuple[Any, ...] = ()
        """The ``id`` of each of `leftovers`, and when that was found out."""
        self._names: Dict[int, Tuple[Any, str]] = {}
        self._searched_s = -math.inf
        self._scan_again_s = self._ask_again_s = -math.inf
        self._scanned_for: Optional[Set[int]] = None

    def clear(self) -> None:
        self.__init__(self._safepoints, self._recorder)  # type: ignore[misc]

    def find(self) -> Objects:
        """Search, unless what an earlier search found still serves. Costs 0.1 ms to 10 ms by frames, 0.1 us per object by gc.

        A search during the job's start-up sees half of it, so each optimizer that starts to step is a reason to look again.
        """
        stepping = set(self._safepoints.optimizers)
        now = time.monotonic()
        if now - self._searched_s < SEARCH_EVERY_S and stepping == self._scanned_for and self._complete():
            return self
        classes = _classes()
        if not classes:
            return self
        self._near = self._keep(classes, reachable.from_frames())
        missing = not self._complete()
        unseen = not (self._live("schedulers") and self._live("loaders"))  # they may well not exist: one look is enough
        if (missing and now > self._scan_again_s) or ((missing or unseen) and stepping != self._scanned_for):
            self._keep(classes, reachable.from_gc([cls for _, cls in classes]))
            self._scan_again_s = time.monotonic() + max(SEARCH_EVERY_S, (time.monotonic() - now) / SCAN_SHARE)
        self._scanned_for, self._searched_s = stepping, time.monotonic()
        return self

    def optimizers(self) -> List[Any]:
        """Live optimizers that hold parameters, those that stepped first, without wrappers (accelerate's, Lightning's) and `leftovers`."""
        leftovers = {id(o) for o in self.leftovers()}
        return [o for o in self.held() if id(o) not in leftovers]

    def leftovers(self, *, in_reach: bool = False) -> List[Any]:
        """Optimizers that an earlier run left, see `runs.left_over`; `in_reach`: only those that the program's variables still lead to.

        Microseconds where every optimizer steps, else about as long as a search by frames, once for each step and search.
        """
        held = self.held()
        asked = (self._recorder.step, self._searched_s, tuple(map(id, held)))
        if asked != self._left_for:
            self._left_for, self._left = asked, {id(o) for o in self._left_over(held)}
        return [o for o in held if id(o) in self._left and (not in_reach or id(o) in self._near)]

    def _left_over(self, held: List[Any]) -> List[Any]:
        now, turns = self._recorder.step, self._recorder.turns()
        numbers = {id(o): self._recorder.number_of(o) for o in held}
        of = {key: None if number is None else turns.get(number) for key, number in numbers.items()}
        stepping = [o for o in held if (turn := of[id(o)]) is not None and not turn.is_over(now)]
        last_is_gone = not stepping and any(not turn.is_over(now) for turn in turns.values())
        if len(stepping) == len(held) or not (stepping or last_is_gone):
            return []
        names = self.names()
        trained = {id(p) for model in self._roots(stepping) for _, p in named_parameters(model)}

        def within(optimizer: Any, ids: Container[int]) -> bool:
            return any(id(p) in ids for g in optimizer.param_groups for p in g["params"])

        all_of = [
            runs.Standing(o, of[id(o)], near=id(o) in self._near, kin=within(o, trained), known=within(o, names))
            for o in held
        ]
        return runs.left_over(all_of, now, last_is_gone=last_is_gone)

    def run_began(self) -> int:
        """The number of the first recorded step of this run; 0 where no earlier one was recorded. As long as `find`."""
        turns = self._recorder.turns()
        if len(turns) < 2:
            return 0
        self.find()
        left = {id(o) for o in self.leftovers()}
        stepping = [*self.stepped(), self._safepoints.by_hand]
        alive = {self._recorder.number_of(o) for o in stepping if id(o) not in left}
        return runs.began(turns, set(turns) - alive)

    def forgotten(self, optimizer: Any) -> bool:
        """True where no variable of the program leads to `optimizer` just now. As long as a search by frames; on any thread.

        False where the last such search was so short a time ago that another one would be a burden to who makes optimizers all the time.
        """
        began = time.monotonic()
        if self._asked_at == self._recorder.step:
            return id(optimizer) not in self._near
        if began < self._ask_again_s:
            return False
        near = self._near = self._keep(_classes(), reachable.from_frames())
        self._left_for, self._asked_at = (), self._recorder.step
        self._ask_again_s = began + (time.monotonic() - began) / REPLACED_SHARE
        return id(optimizer) not in near

    def stepped(self) -> List[Any]:
        """The live optimizers that were seen stepping."""
        return [o for o in (r() for r in list(self._safepoints.optimizers.values())) if o is not None]

    def held(self) -> List[Any]:
        """All that hold parameters, but for wrappers."""
        stepped = self.stepped()
        found = [*stepped, *(o for o in self._live("optimizers") if not any(o is s for s in stepped))]
        ids = {id(o) for o in found}
        return [o for o in found if o.param_groups and not any(id(i) in ids for i in inner_optimizers(o))]

    def all_optimizers(self) -> List[Any]:
        """Every live optimizer that was found or has stepped, wrappers, leftovers and all; some of them twice."""
        return [*self._live("optimizers"), *self.stepped()]

    def models(self) -> List[Any]:
        """Root modules with parameters, the one that best covers the optimizers' parameters first; without those of an earlier run."""
        present = self.optimizers()
        roots = self._roots(present)
        if present:
            return roots
        left = {id(p) for o in self.leftovers() for g in o.param_groups for p in g["params"]}
        others = [model for model in roots if not any(id(p) in left for _, p in named_parameters(model))]
        return [model for model in others if id(model) in self._near] or others

    def _roots(self, optimizers: List[Any]) -> List[Any]:
        """Root modules that have a parameter of `optimizers`, the one with most of them first; with none, all."""
        wanted = {id(p) for o in optimizers for g in o.param_groups for p in g["params"]}
        roots = []
        for module in self._parentless():
            own = {id(p) for _, p in named_parameters(module)}
            if own and (own & wanted or not wanted):
                roots.append((len(own & wanted), -len(own), module))
        roots.sort(key=lambda r: r[:2], reverse=True)
        return [module for _, _, module in roots]

    def _parentless(self) -> List[Any]:
        """Modules that are no part of another one that was found."""
        modules = self._live("models")
        children = {id(c) for m in modules for c in list(vars(m)["_modules"].values())}
        return [m for m in modules if id(m) not in children]

    def untrained(self) -> List[Any]:
        """Root modules that the program's variables lead to and no optimizer trains: averages of weights, target networks, teachers."""
        trained = {id(model) for model in self._roots(self.held())}
        return [m for m in self._parentless() if id(m) in self._near and id(m) not in trained]

    def stateful(self) -> List[Any]:
        """Objects that the program's variables lead to, with a ``state_dict()`` and of none of the other kinds."""
        return [one for one in self._live(STATEFUL) if id(one) in self._near]

    def schedulers(self, optimizer: Any) -> List[Any]:
        """The learning-rate schedulers of `optimizer`; members of a SequentialLR or ChainedScheduler are left to it.

        Those of other libraries (timm) are schedulers by what they have: ``optimizer``, ``step()`` and a state.
        """
        own = self._nearest([s for s in self._live("schedulers") if _acts_on(getattr(s, "optimizer", None), optimizer)])
        foreign = [s for s in self.stateful() if is_scheduler(s) and _acts_on(attribute(s, "optimizer"), optimizer)]
        members = {id(m) for s in own for m in getattr(s, "_schedulers", ())}
        members |= {id(held) for s in foreign for held in attributes(s).values()}
        return [s for s in (*own, *foreign) if id(s) not in members]

    def loaders(self) -> List[Any]:
        return self._live("loaders")

    def scalers(self) -> List[Any]:
        return self._nearest(self._live("scalers"))

    def _nearest(self, found: List[Any]) -> List[Any]:
        """Of several of one class, those that the program's variables lead to, where there are any: others are an earlier run's."""
        near = {type(one) for one in found if id(one) in self._near}
        return [one for one in found if id(one) in self._near or type(one) not in near]

    def names(self) -> Dict[int, str]:
        """The qualified name of each parameter by its ``id``, remembered: FSDP2 shows other tensors in the middle of a forward pass."""
        self._names = {key: known for key, known in self._names.items() if known[0]() is not None}
        # Where two share a parameter, the model that covers more names it.
        for model in reversed(self._roots(self.held())):
            named = {id(p): (weakref.ref(p), name) for name, p in reversed(list(named_parameters(model)))}
            self._names.update(named)
        return {key: name for key, (ref, name) in self._names.items() if ref() is not None}

    def _complete(self) -> bool:
        """True where every parameter of every optimizer is known as part of a model."""
        wanted = {id(p) for o in self.held() for g in o.param_groups for p in g["params"]}
        return bool(wanted) and wanted <= set(self.names())

    def _live(self, kind: str) -> List[Any]:
        return [o for o in (r() for r in list(self._found[kind].values())) if o is not None]

    def _keep(self, classes: List[Tuple[str, type]], candidates: Iterable[Any]) -> Set[int]:
        """Remember those of `candidates` that are of `classes`; the ``id`` of each."""
        kept: Set[int] = set()
        for found in self._found.values():
            for key in [key for key, ref in list(found.items()) if ref() is None]:
                found.pop(key, None)
        kinds_of: Dict[int, Tuple[type, List[str]]] = {}  # by id, see `reachable.from_frames`
        for candidate in candidates:
            cls = type(candidate)  # not isinstance: a proxy's __class__ may run user code
            if id(cls) not in kinds_of:
                kinds_of[id(cls)] = cls, _kinds(cls, classes)
            for kind in kinds_of[id(cls)][1]:
                try:
                    self._found[kind][id(candidate)] = weakref.ref(candidate)
                    kept.add(id(candidate))
                except TypeError:
                    pass  # a class with __slots__ and no __weakref__ cannot be followed without keeping it alive
        return kept


def walk(root: Any) -> Iterator[Tuple[str, Any]]:
    """``(qualified name, module)`` of `root` and all modules below it, each once, without what wrappers add to the names.

    Works on snapshots and calls none of the user's overrides, so the training may go on meanwhile.
    """
    seen: Set[int] = set()
    stack = [("", root)]
    while stack:
        name, module = stack.pop()
        if module is None or id(module) in seen:
            continue
        seen.add(id(module))
        yield name, module
        elided = WRAPPERS.get(type(module).__name__)
        below = [
            (name if child == elided else join(name, child), m) for child, m in list(vars(module)["_modules"].items())
        ]
        stack.extend(reversed(below))


def join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def named_parameters(model: Any) -> Iterator[Tuple[str, Any]]:
    """``(qualified name, parameter)``; shared ones come once for each name. Under FSDP2 also the shards which the optimizer holds."""
    prefixes: Dict[int, str] = {}
    for prefix, module in walk(model):
        prefixes[id(module)] = prefix
        for name, parameter in list(vars(module)["_parameters"].items()):
            if parameter is not None:
                yield join(prefix, name), parameter
    for _, module in walk(model):
        for owner, name, shard in _fsdp2_shards(module):
            if id(owner) in prefixes:
                yield join(prefixes[id(owner)], name), shard


def _fsdp2_shards(module: Any) -> Iterator[Tuple[Any, str, Any]]:
    """What the optimizer holds of a `fully_shard`ed module, also while the module shows its unsharded copies."""
    state_of = getattr(type(module), "_get_fsdp_state", None)
    if state_of is None:
        return
    state = state_of(module)
    groups = getattr(state, "_fsdp_param_groups", None) or [getattr(state, "_fsdp_param_group", None)]
    for group in groups:
        for parameter in getattr(group, "fsdp_params", ()):
            info = parameter._module_info
            yield info.module, info.param_name, parameter.sharded_param


def inner_optimizers(optimizer: Any) -> List[Any]:
    """The optimizers that `optimizer` holds: the ones that really step inside accelerate's, Lightning's, ZeRO's wrappers."""
    base = sys.modules["torch.optim.optimizer"].Optimizer
    held = list(vars(optimizer).values())
    return [h for h in held if issubclass(type(h), base) and h is not optimizer]


def _acts_on(target: Any, optimizer: Any) -> bool:
    return target is optimizer or (
        hasattr(target, "__dict__") and any(i is optimizer for i in inner_optimizers(target))
    )


def is_scheduler(thing: Any) -> bool:
    """True for what sets the learning rates of its optimizer step by step: it is called so, and wraps no optimizer."""
    cls = type(thing)
    called = any(word in home.__name__ for home in classes(thing) for word in ("Sched", "sched", "LR"))
    return called and defined(cls, "step")[0] is not MISSING and defined(cls, "zero_grad")[0] is MISSING


def _kinds(cls: type, wanted_classes: List[Tuple[str, type]]) -> List[str]:
    kinds = [kind for kind, wanted in wanted_classes if issubclass(cls, wanted)]
    both = all(defined(cls, name)[0] is not MISSING for name in ("state_dict", "load_state_dict"))
    of_torch = str(defined(cls, "__module__")[0]).startswith("torch.")
    return kinds or ([STATEFUL] if both and not of_torch else [])


def _classes() -> List[Tuple[str, type]]:
    found = []
    for kind, (module, name) in KINDS.items():
        cls = getattr(sys.modules.get(module), name, None)
        if isinstance(cls, type):
            found.append((kind, cls))
    return found
