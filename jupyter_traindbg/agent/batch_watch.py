"""What is in the batches that the program takes from its DataLoaders, and how these are set up."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Tuple

from .attributes import attributes
from .epochs import Loader, chain, set_up
from .tensors import shard, within

if TYPE_CHECKING:
    from .core import Agent

MOST_TENSORS = 64
"""Of one batch."""
SETTINGS = ("prefetch_factor", "pin_memory", "persistent_workers")


class BatchWatch:
    """Notes what is in batches while `saw` is called for them, and keeps nothing of the program's alive. 20 us a batch on the training
    thread.
    """

    def __init__(self, agent: Agent, most: int) -> None:
        self._agent, self._most = agent, most
        self.batches: List[Dict[str, Any]] = []
        self.loaders: List[Dict[str, Any]] = []
        self.known: List[Loader] = []
        """In the order of `loaders`: a pass has an iterator of its own."""
        self.began_s = self.last_s = time.monotonic()
        self.done = threading.Event()

    def saw(self, iterator: Any, batch: Any) -> None:
        """On the training thread, behind the fetch of `batch`."""
        if len(self.batches) >= self._most:
            return
        number = next((n for n, loader in enumerate(self.known) if loader.is_of(iterator)), len(self.known))
        if number == len(self.known):
            self.known.append(Loader(iterator))
            self.loaders.append({**loader_set_up(iterator), **self.known[number].about})
            self.known[number].forget()
        step = self._agent.recorder.step + 1
        self.batches.append({"loader": number, "step": step, "batch": iterator._num_yielded, **_shapes(batch)})
        self.last_s = time.monotonic()
        if len(self.batches) >= self._most:
            self.done.set()


def _shapes(batch: Any) -> Dict[str, Any]:
    """``tensors``: name (the key, or the place), shape and type of each; ``samples`` is the first size of the first one."""
    told: List[List[Any]] = []
    elements = size = 0
    for name, tensor in _tensors(batch):
        part = shard(tensor)
        elements += part.numel()
        size += part.numel() * part.element_size()
        if len(told) < MOST_TENSORS:
            told.append([name, [int(n) for n in part.shape], str(part.dtype).replace("torch.", "")])
    shape = told[0][1] if told else []
    return {"tensors": told, "samples": shape[0] if shape else None, "elements": elements, "bytes": size}


def _tensors(batch: Any) -> Iterator[Tuple[str, Any]]:
    held = batch if isinstance(batch, (dict, list, tuple)) else attributes(batch).get("data")  # of a BatchEncoding
    named: Any = [("", batch)]
    if isinstance(held, dict):
        named = held.items()
    elif isinstance(held, (list, tuple)):
        named = enumerate(held)
    for name, value in named:
        yield from ((str(name), tensor) for tensor in within(value))


def loader_set_up(like: Any) -> Dict[str, Any]:
    """Of a DataLoader, or of an iterator of one."""
    settings = {name: getattr(like, name, getattr(like, f"_{name}", None)) for name in SETTINGS}
    told = {name: value if isinstance(value, (bool, int)) else None for name, value in settings.items()}
    return {**set_up(like, list(chain(like._index_sampler))), "length": None, **told}


def loader_told(agent: Agent, watch: BatchWatch) -> List[Dict[str, Any]]:
    """The loaders that gave the batches watched, by the number in a batch's ``loader``, and then the others that there are."""
    found = agent.objects.find().loaders() if agent.safepoints.active else []
    return [
        *watch.loaders,
        *(loader_set_up(loader) for loader in found if not any(known.is_of(loader) for known in watch.known)),
    ]


__all__ = ["BatchWatch", "loader_told"]
