"""Sharded checkpoints in the format of ``torch.distributed.checkpoint``, written without a collective.

Each rank says what it holds (`local_plan`), the lowest one decides who writes what (`merge`), each writes its part into one file
(`write`), and the lowest one writes the index (`metadata`). This is the division of labour of torch's own planners
(`DefaultSavePlanner`, `FileSystemWriter`), with plans as JSON: no pickle crosses between processes, and the trainee need not import
their package before the end.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import pickle
import sys
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..refused import Refused
from ..saying import Text, said
from ..tensors import shard
from . import archive
from .archive import Output, Pieces
from .layout import Layout

METADATA = ".metadata"
TENSOR, SHARD, BYTES = "tensor", "shard", "bytes"
MOST_NAMED = 3
DTENSOR_UTILS = ("torch.distributed.tensor._utils", "torch.distributed._tensor._utils")

Item = Dict[str, Any]


def file_name(rank: int) -> str:
    """What rank `rank` writes."""
    return f"__{rank}_0.distcp"


def local_plan(flat: Dict[str, Any], layout: Layout) -> List[Item]:
    """What this rank could write of `flat`, JSON-ready: one item a tensor, shard or plain value.

    ``{"key", "kind", "dtype", "size" (of the whole tensor), "offsets", "sizes" (of the part), "requires_grad", "bytes"}``; a plain value
    has only ``key``, ``kind`` and ``bytes``.
    """
    items = []
    for key, value in flat.items():
        if not issubclass(type(value), sys.modules["torch"].Tensor):
            items.append({"key": key, "kind": BYTES, "bytes": 0})
            continue
        part = _part(key, value)
        if part is None or (math.prod(part[1]) == 0 and math.prod(value.shape) != 0):
            continue  # this rank holds nothing of it
        items.append(
            {
                "key": key,
                "kind": SHARD if hasattr(value, "placements") else TENSOR,
                "dtype": str(shard(value).dtype).split(".")[-1],
                "size": list(value.shape),
                "offsets": list(part[0]),
                "sizes": list(part[1]),
                "requires_grad": bool(value.requires_grad),
                "bytes": layout.leaves[id(value)].store.nbytes if id(value) in layout.leaves else 0,
            }
        )
    return items


def _part(key: str, tensor: Any) -> Optional[Tuple[Sequence[int], Sequence[int]]]:
    """Offsets and sizes of this rank's part of `tensor`; None where the rank is not in its mesh."""
    if not hasattr(tensor, "placements"):
        return [0] * tensor.dim(), tuple(tensor.shape)
    if tensor.device_mesh.get_coordinate() is None:
        return None
    utils: Any = next((sys.modules[name] for name in DTENSOR_UTILS if name in sys.modules), None)
    sizes, offsets = utils.compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
    local = tuple(shard(tensor).shape)
    if tuple(sizes) != local:
        raise Refused(
            said(
                "{name}: this rank holds a part of shape {shape}, and its DTensor says {told}",
                name=key,
                shape=str(local),
                told=str(tuple(sizes)),
            ),
            said("save it with the job's own code"),
        )
    return offsets, sizes


def merge(plans: Dict[str, List[Item]]) -> Dict[str, List[Item]]:
    """Who writes what: each part once. What several ranks hold goes to the one that writes least so far, plain values to the lowest.

    Raises `Refused` where ranks disagree about a tensor, or parts of one are missing.
    """
    holders: Dict[Tuple[str, Tuple[int, ...]], List[Tuple[str, Item]]] = {}
    for rank in sorted(plans, key=int):
        for item in plans[rank]:
            holders.setdefault((item["key"], tuple(item.get("offsets", ()))), []).append((rank, item))
    load = dict.fromkeys(plans, 0)
    merged: Dict[str, List[Item]] = {rank: [] for rank in sorted(plans, key=int)}
    for candidates in holders.values():
        rank, item = candidates[0]
        if item["kind"] == SHARD:
            rank, item = min(candidates, key=lambda c: load[c[0]])
        load[rank] += item["bytes"]
        merged[rank].append(item)
    _check(merged)
    return merged


def _check(plans: Dict[str, List[Item]]) -> None:
    """Every tensor is one tensor, and whole."""
    first: Dict[str, Item] = {}
    covered: Dict[str, int] = {}
    for item in (i for items in plans.values() for i in items):
        same = first.setdefault(item["key"], item)
        if any(same.get(field) != item.get(field) for field in ("size", "dtype")) or (same["kind"] == BYTES) != (
            item["kind"] == BYTES
        ):
            raise Refused(
                said("the ranks disagree about the shape or dtype of {name}", name=item["key"]),
                said("they do not run the same training"),
            )
        covered[item["key"]] = covered.get(item["key"], 0) + math.prod(item.get("sizes", ()))
    missing = [key for key, item in first.items() if item["kind"] != BYTES and covered[key] != math.prod(item["size"])]
    if missing:
        some: Text = ", ".join(missing[:MOST_NAMED])
        if len(missing) > MOST_NAMED:
            some = said("{names} and {count} more", names=some, count=len(missing) - MOST_NAMED)
        raise Refused(
            said("parts of {names} are held by no rank that takes part", names=some),
            said("a sharded checkpoint needs every rank that holds a shard"),
        )


def nbytes(plan: List[Item]) -> int:
    return sum(int(item["bytes"]) for item in plan)


def write(output: Output, plan: List[Item], flat: Dict[str, Any], layout: Layout, pieces: Pieces) -> List[List[Any]]:
    """Write the items of `plan` one after the other; for each ``[key, offsets or None, where it begins, its length]``."""
    results: List[List[Any]] = []
    for item in plan:
        start = output.offset
        archive.write(output, flat[item["key"]], layout, pieces)
        results.append([item["key"], item.get("offsets"), start, output.offset - start])
    return results


def metadata(plans: Dict[str, List[Item]], results: Dict[str, List[List[Any]]]) -> bytes:
    """The content of ``.metadata``, from all ranks' plans and results.

    Imports torch's checkpoint package where the job has not done so itself: 0.07 s in a process with FSDP2, and harmless at this point.
    """
    names: Any = importlib.import_module("torch.distributed.checkpoint.metadata")
    filesystem: Any = importlib.import_module("torch.distributed.checkpoint.filesystem")
    torch = sys.modules["torch"]
    entries: Dict[str, Any] = {}
    for item in (i for rank in sorted(plans, key=int) for i in plans[rank]):
        if item["kind"] == BYTES:
            entries[item["key"]] = names.BytesStorageMetadata()
            continue
        if item["key"] not in entries:
            properties = names.TensorProperties(
                dtype=getattr(torch, item["dtype"]), requires_grad=item["requires_grad"]
            )
            entries[item["key"]] = names.TensorStorageMetadata(properties, torch.Size(item["size"]), [])
        chunk = names.ChunkStorageMetadata(torch.Size(item["offsets"]), torch.Size(item["sizes"]))
        entries[item["key"]].chunks.append(chunk)
    storage = {}
    for rank in sorted(plans, key=int):
        for key, offsets, start, length in results[rank]:
            index = names.MetadataIndex(key, None if offsets is None else torch.Size(offsets))
            storage[index] = filesystem._StorageInfo(file_name(int(rank)), start, length)
    whole = names.Metadata(entries, planner_data={key: (key,) for key in entries}, storage_data=storage)
    fields = {field.name for field in dataclasses.fields(whole)}
    if "storage_meta" in fields:
        whole.storage_meta = names.StorageMeta()
    if "version" in fields:
        whole.version = getattr(filesystem, "CURRENT_DCP_VERSION", None)
    return pickle.dumps(whole)
