"""Reading tensors: the local data behind DTensors and sparse tensors, bytes counted once per storage. Never a collective, never a repr."""

from __future__ import annotations

import sys
from typing import Any, Dict, Iterator, List, Set


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


def unreadable(tensor: Any) -> str:
    """Why `tensor` has no values that could be read, or ''."""
    if sys.modules["torch"].nn.parameter.is_lazy(tensor):
        return "not initialised yet (a lazy parameter)"
    return "on the meta device, without values" if shard(tensor).device.type == "meta" else ""


def add_bytes(sums: Dict[str, int], tensors: List[Any], seen: Set[int]) -> None:
    """Add to `sums`, per device, the bytes of the storages of `tensors` that are not in `seen` yet."""
    for tensor in tensors:
        if unreadable(tensor):
            continue
        for part in _strided(shard(tensor)):
            storage = part.untyped_storage()
            key = storage.data_ptr()
            if key and key not in seen:
                seen.add(key)
                device = str(part.device)
                sums[device] = sums.get(device, 0) + storage.nbytes()


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
