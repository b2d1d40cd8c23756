"""Which of the objects that steps make outlive them: the youngest generations of the garbage collector are looked at after each, and some
steps later it is seen who is still alive. For what no variable of the program's leads to.
"""

from __future__ import annotations

import gc
import sys
import types
import weakref
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

from ..attributes import class_name, full_name
from ..saying import Text, said
from ..tensors import extent, shard
from .elements import is_tensor
from .graphs import grad_fn
from .names import is_ours

SAMPLES, LEAST_SAMPLES, SETTLE_STEPS = 6, 4, 10
"""After so many steps the young ones are noted; a kind that has some of most of them left, and so many steps later stays, as far as
anybody can tell.
"""
MOST_YOUNG, MOST_OF_A_KIND, MOST_KINDS = 200_000, 12, 6
NEWEST = 6000
OF_THE_PROGRAM = 1
"""Of what weight its own classes are; tensors are as many as they have numbers, and two more."""
UNFIT = (type, types.ModuleType, types.FunctionType, weakref.ref, types.CodeType)

Key = Tuple[str, Tuple[int, ...], str, str, bool]
"""Of tensors: class, shape, dtype, device, whether it has a graph."""
Kind = Union[Key, str]


class Kept(NamedTuple):
    """A kind of objects of which some stay at each step; ``counts`` as they add up, ``alive`` one of them, weakly."""

    kind: Kind
    counts: List[int]
    alive: Any

    @property
    def name(self) -> str:
        return self.kind if isinstance(self.kind, str) else self.kind[0]

    @property
    def size(self) -> int:
        """The most telling first: tensors by their size, then the program's own classes."""
        if isinstance(self.kind, str):
            return 0 if "." not in self.kind or self.kind.startswith(("torch.", "functools.")) else OF_THE_PROGRAM
        values = 2
        for n in self.kind[1]:
            values *= n
        return values


class Survivors:
    """`note` runs on the training thread, a millisecond each time: only weak references are kept."""

    def __init__(self) -> None:
        self.left_out: Text = ""
        self.objects = 0
        self.some_stay = False
        """Whether any tensor, or object of the program's, has outlived its step: garbage that waits for the collector, if nothing else."""
        self._known: Dict[int, Any] = {}
        self._samples: List[Dict[Kind, List[Any]]] = []
        self._weakly: Dict[int, Optional[str]] = {}

    @property
    def full(self) -> bool:
        return len(self._samples) > SAMPLES

    def note(self) -> None:
        """After a step: what is new since the last time."""
        young = self._young()
        self.objects = max(self.objects, len(young))
        sample: Dict[Kind, List[Any]] = {}
        known, self._known = self._known, {}
        torch = sys.modules["torch"]
        with torch._C.DisableTorchFunctionSubclass():
            for one in young:
                name = self._name(type(one))
                if name is None:
                    continue
                ref = known.get(id(one))
                if ref is None or ref() is not one:  # not merely where another one has been
                    ref = weakref.ref(one)
                    kind: Kind = _key(one) if is_tensor(one) else name
                    same = sample.setdefault(kind, [])
                    if len(same) < MOST_OF_A_KIND:
                        same.append(ref)
                self._known[id(one)] = ref
        self._samples.append(sample)

    def kept(self) -> List[Kept]:
        """On the training thread, `SETTLE_STEPS` later: the kinds of which some are left of most samples; the first is of older ones."""
        found = []
        for kind in {kind for sample in self._samples for kind in sample}:
            alive = [[ref for ref in sample.get(kind, ()) if ref() is not None] for sample in self._samples[1:]]
            if not any(alive[:-1]):
                continue
            self.some_stay = self.some_stay or not isinstance(kind, str) or "." in kind
            if sum(map(bool, alive)) >= LEAST_SAMPLES:
                counts = [sum(map(len, alive[: n + 1])) for n in range(len(alive))]
                found.append(Kept(kind, counts, next(some[-1] for some in reversed(alive) if some)))
        return sorted(found, key=lambda one: -one.size)[:MOST_KINDS]

    def _young(self) -> List[Any]:
        count, older, _ = gc.get_count()
        if count > MOST_YOUNG:
            self.left_out = said(
                "{count} objects were made since the garbage collector last ran: too many to look at in one pause",
                count=f"{count:,}",
            )
            return []
        found = gc.get_objects(generation=0)[-NEWEST:]
        if gc.isenabled() and (older + 1) * gc.get_threshold()[0] < MOST_YOUNG:
            found += gc.get_objects(generation=1)[-NEWEST:]
        return found

    def _name(self, cls: type) -> Optional[str]:
        """Of a class whose objects can be referred to weakly; None of others."""
        if id(cls) not in self._weakly:
            fits = type.__dict__["__weakrefoffset__"].__get__(cls) and not issubclass(cls, UNFIT)
            called = full_name(cls)
            self._weakly[id(cls)] = called if fits and not is_ours(called) else None
        return self._weakly[id(cls)]


def _key(tensor: Any) -> Key:
    part = shard(tensor)
    kind = str(part.dtype).replace("torch.", "")
    return (class_name(tensor), extent(tensor).shape, kind, str(part.device), grad_fn(tensor) is not None)
