"""Reading tensors: the local data behind DTensors and sparse tensors, bytes counted once per storage. Never a collective, never a repr."""

from __future__ import annotations

import sys
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Set, Tuple

from .saying import Text, said

NO_TORCH = said("torch has not been imported in this process")


def shard(tensor: Any) -> Any:
    """This rank's part of a DTensor; any other tensor itself."""
    return getattr(tensor, "_local_tensor", tensor)


def values(tensor: Any) -> Any:
    """The dense tensor that holds this rank's values: of a sparse tensor only those that it stores (summed up, which copies them)."""
    torch = sys.modules["torch"]
    tensor = shard(tensor)
    if tensor.layout is torch.sparse_coo:
        return tensor.coalesce()._values()
    return tensor if tensor.layout is torch.strided else tensor.values()


class Extent(NamedTuple):
    """How large a tensor is, and where its values begin; no ``address`` of one without."""

    shape: Tuple[int, ...]
    bytes: int
    address: Optional[int]


def extent(tensor: Any) -> Extent:
    """Of this rank's part of it; nothing of what is lazy, sparse, symbolic, or without storage."""
    part = shard(tensor)
    try:
        shape = tuple(int(size) for size in part.shape)
        return Extent(shape, int(part.numel() * part.element_size()), part.data_ptr() or None)
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return Extent((), 0, None)


def unreadable(tensor: Any) -> Text:
    """Why `tensor` has no values that could be read; empty where it has."""
    if sys.modules["torch"].nn.parameter.is_lazy(tensor):
        return said("not initialised yet (a lazy parameter)")
    return said("on the meta device, without values") if shard(tensor).device.type == "meta" else ""


def add_bytes(sums: Dict[str, int], tensors: Iterable[Any], seen: Set[int]) -> None:
    """Add to `sums`, per device, the bytes of the storages of `tensors` that are not in `seen` yet.

    Never asks for the storage object itself: making and dropping its Python wrapper on this thread, while C++ counts the storage's
    references on another one without the GIL, frees it twice (seen with torch 2.13 as "double free" within some hundred calls).
    So a storage is known by its address, and is as large as its furthest view reaches.
    """
    reach: Dict[int, int] = {}
    devices: Dict[int, str] = {}
    for tensor in tensors:
        if unreadable(tensor):
            continue
        for part in _strided(shard(tensor)):
            if part.numel() == 0 or not part.data_ptr():
                continue
            start = part.storage_offset() * part.element_size()
            address = part.data_ptr() - start
            last = sum((size - 1) * stride for size, stride in zip(part.shape, part.stride()))
            reach[address] = max(reach.get(address, 0), start + (last + 1) * part.element_size())
            devices[address] = str(part.device)
    for address, size in reach.items():
        if address not in seen:
            seen.add(address)
            sums[devices[address]] = sums.get(devices[address], 0) + size


def _strided(tensor: Any) -> List[Any]:
    torch = sys.modules["torch"]
    if tensor.layout is torch.strided:
        return [tensor]
    if tensor.layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    rows = tensor.layout in (torch.sparse_csr, torch.sparse_bsr)
    if rows or tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        index = (tensor.crow_indices(), tensor.col_indices()) if rows else (tensor.ccol_indices(), tensor.row_indices())
        return [*index, tensor.values()]
    return []


def within(value: Any, depth: int = 4) -> Iterator[Any]:
    """All tensors in nested dicts, lists and tuples."""
    if isinstance(value, sys.modules["torch"].Tensor):
        yield value
    elif depth and isinstance(value, (dict, list, tuple)):
        for part in list(value.values() if isinstance(value, dict) else value):
            yield from within(part, depth - 1)
