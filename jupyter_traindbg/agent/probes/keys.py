"""The names, shapes and dtypes that a model's ``state_dict()`` would have, without calling it: parameters and persistent buffers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Dict, FrozenSet, Iterator, List, Tuple

from ..objects import WRAPPERS, join
from ..saying import said
from ..tensors import NO_TORCH

if TYPE_CHECKING:
    from ..core import Agent

COST = "2 us a tensor, plus one search for the objects (0.1 ms to 100 ms); nothing on the training thread"


def run(agent: Agent) -> Dict[str, Any]:
    if "torch" not in sys.modules:
        return {"models": [], "note": NO_TORCH}
    models = [{"class": type(m).__name__, "keys": _keys(m)} for m in agent.objects.find().models()]
    return {"models": models, "note": "" if models else said("no model was found")}


def _keys(model: Any) -> List[List[Any]]:
    """``[name, shape, dtype, tied_to]``; of a DTensor the whole shape. Tied: the same parameter object under an earlier name."""
    first: Dict[int, str] = {}
    keys = []
    for name, tensor in _named(model):
        tied = first.get(id(tensor))
        first.setdefault(id(tensor), name)
        keys.append([name, _shape(tensor), str(tensor.dtype).replace("torch.", ""), tied])
    return keys


def _named(model: Any) -> Iterator[Tuple[str, Any]]:
    """As in a state dict: a module's parameters, its persistent buffers, then its children."""
    for prefix, module in _modules(model):
        own = vars(module)
        transient = own.get("_non_persistent_buffers_set") or ()
        for name, parameter in list(own["_parameters"].items()):
            if parameter is not None:
                yield join(prefix, name), parameter
        for name, buffer in list(own["_buffers"].items()):
            if buffer is not None and name not in transient:
                yield join(prefix, name), buffer


def _modules(model: Any) -> Iterator[Tuple[str, Any]]:
    """All modules, a shared one under each of its names (`objects.walk` gives each once), without what wrappers add to the names."""
    stack: List[Tuple[str, Any, FrozenSet[int]]] = [("", model, frozenset())]
    while stack:
        name, module, above = stack.pop()
        if module is None or id(module) in above:
            continue
        yield name, module
        elided = WRAPPERS.get(type(module).__name__)
        inner = above | {id(module)}
        children = list(vars(module)["_modules"].items())
        stack.extend((name if child == elided else join(name, child), m, inner) for child, m in reversed(children))


def _shape(tensor: Any) -> List[int]:
    if sys.modules["torch"].nn.parameter.is_lazy(tensor):
        return []
    return [int(size) for size in tensor.shape]
