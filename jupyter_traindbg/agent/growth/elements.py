"""What a container is filled with: kind, bytes, graphs, of its newest elements. Shared objects count for none of them."""

from __future__ import annotations

import collections
import functools
import gc
import itertools
import sys
import types
from typing import Any, Dict, Iterable, List, Set

from ..attributes import class_name
from ..tensors import extent, shard
from .graphs import grad_fn

SAMPLE = 6
TENSOR_BYTES = 350
"""What each tensor takes besides its values: objects of Python and of C++."""
DEPTH, MOST_PARTS = 5, 64
SIZED = (str, bytes, bytearray, int, float, complex, list, dict, tuple, set, frozenset, collections.deque)
NOT_FOLLOWED = (
    type, types.ModuleType, types.BuiltinFunctionType, types.CodeType, type(None), bool,
)  # fmt: skip
CALLED = (types.FunctionType, types.MethodType, functools.partial)
LRU = type(functools.lru_cache(lambda: None))

Reached = Dict[int, Any]


def length(container: Any) -> int:
    """How many it holds, without asking its class."""
    cls = type(container)
    if cls is LRU:
        return int(LRU.cache_info(container).currsize)
    for base in (list, dict, set, collections.deque, tuple):
        if issubclass(cls, base):
            return int(base.__len__(container))
    return 0


def newest(container: Any, count: int = SAMPLE) -> List[Any]:
    """Its latest elements as far as it keeps an order; values, of what maps."""
    cls = type(container)
    for base in (list, tuple):
        if issubclass(cls, base):
            return list(base.__getitem__(container, slice(-count, None)))
    if issubclass(cls, dict):
        return list(itertools.islice(reversed(dict.values(container)), count))
    if issubclass(cls, collections.deque):
        return list(itertools.islice(collections.deque.__reversed__(container), count))
    if issubclass(cls, set):
        return list(itertools.islice(set.__iter__(container), count))
    if cls is LRU:
        held = [o for o in gc.get_referents(container) if type(o) not in (types.FunctionType, type)]
        inner = next((o for o in held if type(o) is dict and dict.__len__(o) == length(container)), None)
        return newest(inner if inner is not None else held, count)
    return []


def described(container: Any) -> Dict[str, Any]:
    """``kind`` of its newest elements, how many ``bytes`` one takes at least, how many ``tensors``, whether with ``graph``; ``shape`` and
    ``dtype`` of their largest tensor.
    """
    sample = newest(container)
    reached = [_reached(one) for one in sample]
    often: Dict[int, int] = {}
    for of_one in reached:
        for key in of_one:
            often[key] = often.get(key, 0) + 1
    most = max(1, len(sample) // 2)  # what an element has in common with its neighbours is kept by them, too
    of_all = list({key: one for of_one in reached for key, one in of_one.items() if often[key] <= most}.values())
    tensors = [part for part in of_all if is_tensor(part)]
    return {
        "kind": class_name(sample[0]) if sample else "",
        "called": _are(sample, CALLED),
        "exception": _are(sample, BaseException),
        "optimizer": _are(sample, getattr(sys.modules.get("torch.optim.optimizer"), "Optimizer", ())),
        "tensor": bool(sample) and is_tensor(sample[0]),
        "bytes": _bytes(of_all) / max(1, len(sample)),
        "tensors": len(tensors) / max(1, len(sample)),
        "graph": any(grad_fn(tensor) is not None for tensor in tensors),
        "numbered": _is_numbered(container),
        **_largest(tensors),
    }


def _is_numbered(container: Any) -> bool:
    """Whether its newest keys are numbers that rise by the same: of steps, of samples in their order."""
    if not issubclass(type(container), dict):
        return False
    newest_keys = list(itertools.islice(reversed(dict.keys(container)), SAMPLE))
    columns = [newest_keys]
    if all(type(key) is tuple and len(key) == len(newest_keys[0]) for key in newest_keys):
        columns = [list(column) for column in zip(*newest_keys)]
    return len(newest_keys) == SAMPLE and any(map(_rises_evenly, columns))


def _rises_evenly(newest_first: List[Any]) -> bool:
    if any(type(one) is not int for one in newest_first):
        return False
    rises = {a - b for a, b in zip(newest_first, newest_first[1:])}
    return len(rises) == 1 and rises.pop() > 0


def is_tensor(value: Any) -> bool:
    base = getattr(sys.modules.get("torch"), "Tensor", None)
    return base is not None and issubclass(type(value), base)


def _are(sample: List[Any], classes: Any) -> bool:
    return bool(sample) and issubclass(type(sample[0]), classes)


def _reached(element: Any) -> Reached:
    """What hangs on it, by ``id``, itself too: nearest first, `MOST_PARTS` of each thing and 2,000 in all."""
    found: Reached = {id(element): element}
    level = [element]
    for _ in range(DEPTH):
        below: List[Any] = []
        for one in level:
            below += [part for part in _parts(one) if id(part) not in found]
            found.update((id(part), part) for part in below[-MOST_PARTS:])
        level = below[:500]
        if len(found) > 2000:
            break
    return found


def _parts(value: Any) -> List[Any]:
    if is_tensor(value) or issubclass(type(value), SIZED[:6]):
        return []
    told = itertools.islice(gc.get_referents(value), MOST_PARTS)
    return [part for part in told if not issubclass(type(part), NOT_FOLLOWED) and not _is_namespace(part)]


def _is_namespace(value: Any) -> bool:
    """Whether it is the globals of a module, which every function leads to."""
    return type(value) is dict and "__builtins__" in value


def _bytes(values: Iterable[Any]) -> int:
    total = 0
    seen: Set[int] = set()
    array = getattr(sys.modules.get("numpy"), "ndarray", None)
    for value in values:
        if is_tensor(value):
            _, size, address = extent(value)
            total += TENSOR_BYTES + (size if address not in seen else 0)
            if address is not None:
                seen.add(address)
        elif array is not None and type(value) is array:
            address = value.__array_interface__["data"][0]
            total += value.nbytes if address not in seen else 0
            seen.add(address)
        elif type(value) in SIZED:
            total += sys.getsizeof(value)
    return total


def _largest(tensors: List[Any]) -> Dict[str, Any]:
    if not tensors:
        return {"shape": None, "dtype": "", "device": "", "pinned": False}
    largest = shard(max(tensors, key=lambda tensor: extent(tensor).bytes))
    on_host = largest.device.type == "cpu"
    return {
        "shape": [int(n) for n in largest.shape],
        "dtype": str(largest.dtype).replace("torch.", ""),
        "device": str(largest.device),
        "pinned": bool(on_host and sys.modules["torch"]._C.TensorBase.is_pinned(largest)),
    }
