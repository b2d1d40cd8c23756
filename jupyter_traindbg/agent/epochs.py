"""One pass over a DataLoader: how its iterator was begun, or what can still be read off an iterator that was begun before we came.

A shuffled pass is settled by the generators at its beginning. Who comes in its middle finds the same thing in the iterator: the seed of
its workers, and a suspended `RandomSampler.__iter__` that holds its seeded generator or the very list of indices.
"""

from __future__ import annotations

import gc
import sys
import types
import weakref
from typing import Any, Dict, Iterator, List, Optional, Tuple

DEEPEST = 6
"""Samplers inside samplers (accelerate's shard of a skip of a batch sampler of a sampler) are followed so far."""


class Epoch:
    """One iterator of a DataLoader."""

    def __init__(
        self, iterator: Any, begun: Optional[Dict[str, Any]], ahead: Any = None, *, again: bool = False
    ) -> None:
        self.iterator = weakref.ref(iterator)
        self.begun = begun
        """The generators when it began, as `Boundary` noted them; None where we came later."""
        self.again = again
        """Whether the iterator and its (persistent) workers had done a pass before."""
        self.recovered = None if begun is not None else recover(iterator)
        self._ahead = None if ahead is None else weakref.ref(ahead)
        iteration = getattr(ahead, "iteration", None)
        self.iteration = iteration if type(iteration) is int else None
        """accelerate's count of passes, from which its samplers take their seed."""

    @property
    def ahead(self) -> bool:
        """Whether a batch is fetched before the program has taken the one before it."""
        return self._ahead is not None

    def batches(self) -> Optional[int]:
        """Batches that the program has taken; None where the iterator is gone: the pass is over."""
        iterator = self.iterator()
        if iterator is None:
            return None
        taken: int = iterator._num_yielded
        ahead = None if self._ahead is None else self._ahead()
        # accelerate fetches one batch before it hands out the last one it has, until it knows that there is none
        return max(0, taken - 1) if ahead is not None and not ahead.end_of_dataloader else taken


class Loader:
    """A DataLoader that was seen, told apart by its dataset and its sampler: an iterator knows those and not its loader."""

    def __init__(self, like: Any) -> None:
        """`like` is a DataLoader or an iterator of one; on the training thread: asks the sampler for its length."""
        self.dataset = _weak(_dataset(like))
        self.index_sampler = _weak(like._index_sampler)
        self.begun = 0
        """Iterators made of it since it was first seen."""
        self.epoch: Optional[Epoch] = None
        self.generators: Dict[str, Any] = {}
        self.about: Dict[str, Any] = {}
        self.saw(like)

    def saw(self, like: Any) -> List[Tuple[str, Any]]:
        """Look at it (again): samplers and generators may have been exchanged between two passes. Its `chain`; 5 us."""
        samplers = list(chain(like._index_sampler))
        self.generators = dict(own_generators([("loader", like), *samplers]))
        self.about = describe(like, samplers)
        return samplers

    def is_of(self, like: Any) -> bool:
        return self.dataset() is _dataset(like) and self.index_sampler() is like._index_sampler

    @property
    def alive(self) -> bool:
        return self.index_sampler() is not None and self.dataset() is not None

    def forget(self) -> None:
        """Keep no object of the program."""
        self.generators, self.epoch = {}, None

    def own_states(self) -> Dict[str, Any]:
        """The states of generators that belong to this loader or to one of its samplers. 1 us each; mostly there is none."""
        return {path: generator.get_state() for path, generator in self.generators.items()}


def _dataset(like: Any) -> Any:
    return like._dataset if hasattr(like, "_num_yielded") else like.dataset


def _weak(thing: Any) -> Any:
    try:
        return weakref.ref(thing)
    except TypeError:  # a list: it has no identity to lose
        return lambda: thing


def chain(index_sampler: Any) -> Iterator[Tuple[str, Any]]:
    """``(path, sampler)`` of `index_sampler` and the samplers inside it, by what a DataLoader calls them: "" is the outermost."""
    path, sampler = "", index_sampler
    for _ in range(DEEPEST):
        yield path, sampler
        held = getattr(sampler, "__dict__", {})
        name = next((n for n in ("sampler", "batch_sampler") if n in held), None)
        if name is None:
            return
        path, sampler = (f"{path}.{name}" if path else name), held[name]


def own_generators(samplers: List[Tuple[str, Any]]) -> Iterator[Tuple[str, Any]]:
    generator_class = sys.modules["torch"].Generator
    for path, sampler in samplers:
        generator = getattr(sampler, "__dict__", {}).get("generator")
        if isinstance(generator, generator_class):
            yield path, generator


def sampler_epochs(samplers: List[Tuple[str, Any]]) -> Dict[str, int]:
    """What `DistributedSampler.set_epoch` and its like have set."""
    found = {path: getattr(sampler, "__dict__", {}).get("epoch") for path, sampler in samplers}
    return {path: epoch for path, epoch in found.items() if type(epoch) is int}


def describe(like: Any, samplers: List[Tuple[str, Any]]) -> Dict[str, Any]:
    """What a loader looks like, to know it again in another process. On the training thread: asks the sampler for its length."""
    return {**set_up(like, samplers), "length": _length(like)}


def set_up(like: Any, samplers: List[Tuple[str, Any]]) -> Dict[str, Any]:
    """The same by attributes alone, on any thread."""
    own = {} if hasattr(like, "_num_yielded") else {"class": type(like).__name__}
    innermost = samplers[-1][1]
    return {
        "class": "DataLoader",
        **own,
        "dataset": type(_dataset(like)).__name__,
        "sampler": type(innermost).__name__,
        "batch_size": next((b for b in (getattr(s, "batch_size", None) for _, s in samplers) if type(b) is int), None),
        "num_workers": like.num_workers if hasattr(like, "num_workers") else like._num_workers,
        "skipped": sum(s.skip_batches for _, s in samplers if type(getattr(s, "skip_batches", None)) is int),
    }


def _length(like: Any) -> Optional[int]:
    """Batches in one pass; None where it has no end that is known. (An IterableDataset must not even be asked: it counts on.)"""
    if like._dataset_kind != 0:
        return None
    try:
        return len(like._index_sampler)
    except (TypeError, NotImplementedError):
        return None


def recover(iterator: Any) -> Dict[str, Any]:
    """How `iterator` was begun: ``base_seed`` of its workers, ``epochs`` as set, and its order: ``seed``, or the list itself as ``order``.

    The last two are None where they are not to be had: a sampler of the program's own, or one that has given its last index already.
    ``settled`` says that the sampler draws nothing.
    """
    samplers = list(chain(iterator._index_sampler))
    found: Dict[str, Any] = {"base_seed": getattr(iterator, "_base_seed", None), "epochs": sampler_epochs(samplers)}
    found.update(seed=None, order=None)
    innermost = samplers[-1][1]
    name = type(innermost).__name__
    found["settled"] = name in ("SequentialSampler", "DistributedSampler", "_InfiniteConstantSampler")
    if name == "RandomSampler" and type(innermost).__module__ == "torch.utils.data.sampler":
        held = _held_by_sampler(iterator._sampler_iter, innermost)
        if innermost.generator is None:
            generators = [h for h in held if isinstance(h, sys.modules["torch"].Generator)]
            found["seed"] = generators[0].initial_seed() if len(generators) == 1 else None
        elif not innermost.replacement and innermost.num_samples == len(innermost.data_source):
            found["order"] = next((o for o in map(_behind, held) if o is not None), None)
    return found


def _held_by_sampler(generator: Any, sampler: Any) -> List[Any]:
    """What the suspended generator of ``sampler.__iter__`` holds, found through those around it."""
    for _ in range(DEEPEST):
        held = _held(generator)
        if any(h is sampler for h in held) and generator.gi_code is type(sampler).__iter__.__code__:
            return held
        inner = [h for h in held if isinstance(h, types.GeneratorType)]
        if len(inner) != 1:
            return []
        generator = inner[0]
    return []


def _held(generator: Any) -> List[Any]:
    """The locals and temporaries of a suspended generator. Asking the collector leaves the frame alone, which ``f_locals`` does not."""
    if not isinstance(generator, types.GeneratorType) or generator.gi_running or generator.gi_frame is None:
        return []
    held = gc.get_referents(generator)
    for frame in [h for h in held if isinstance(h, types.FrameType)]:  # before Python 3.11
        held = held + gc.get_referents(frame)
    return held


def _behind(iterator: Any) -> Optional[List[int]]:
    """The list that a list iterator walks through."""
    if type(iterator) is not type(iter([])):
        return None
    items = iterator.__reduce__()[1][0]
    return items if type(items) is list and items else None
