"""Reading tensors: the local data behind DTensors and sparse tensors, bytes counted once per storage. Never a collective, never a repr."""

from __future__ import annotations

from typing import Any, Dict, List, Set


def local(tensor: Any) -> Any:
    """The dense tensor that holds this rank's values: the shard of a DTensor, the coalesced values of a sparse tensor."""
    shard = getattr(tensor, "_local_tensor", None)
    if shard is not None:
        tensor = shard
    if tensor.layout.__repr__() == "torch.sparse_coo":
        tensor = tensor.coalesce().values()
    return tensor


def device_name(tensor: Any) -> str:
    return str(tensor.device)


def add_bytes(sums: Dict[str, int], tensors: List[Any], seen: Set[int]) -> None:
    """Add to `sums`, per device, the bytes of the storages of `tensors` that are not in `seen` yet."""
    for tensor in tensors:
        shard = getattr(tensor, "_local_tensor", tensor)
        parts = [shard._indices(), shard._values()] if shard.is_sparse else [shard]
        for part in parts:
            storage = part.untyped_storage()
            key = storage.data_ptr()
            if key and key not in seen:
                seen.add(key)
                sums[device_name(part)] = sums.get(device_name(part), 0) + storage.nbytes()
