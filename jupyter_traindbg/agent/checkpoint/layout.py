"""Which memory has to be saved for a set of tensors, each byte once: tensors that share memory share it in the file, too.

A tensor is known by its address and strides. The Python object of its storage is never asked for: on any thread but the training thread
that is not safe (see `tensors.add_bytes`).
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Dict, Iterable, List, Sequence, Tuple

from ..tensors import shard
from .arena import Arena, aligned

WASTE = 2
"""A view with gaps is saved with its gaps, up to this many times its own size; beyond, its values alone."""


class Store:
    """A run of memory, written as one storage. `source` is a tensor whose elements, in the order of memory, are the run's content."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self.dtype = source.dtype
        self.numel = int(source.numel())
        self.nbytes = self.numel * int(source.element_size())
        self.copy: Any = None
        """One-dimensional uint8 tensor of `nbytes` in host memory, once there is one."""


class Leaf:
    """Where a tensor's values lie: in `store`, from element `offset` on, with `shape` and `stride`."""

    __slots__ = ("offset", "shape", "store", "stride", "tensor")

    def __init__(self, tensor: Any, store: Store, offset: int, stride: Sequence[int]) -> None:
        self.tensor = tensor  # keeps its id ours
        self.store, self.offset = store, offset
        self.shape, self.stride = tuple(shard(tensor).shape), tuple(stride)


class Layout:
    """The stores of a set of tensors, and the leaf of each by the tensor's ``id``."""

    def __init__(self, tensors: Iterable[Any]) -> None:
        self.leaves: Dict[int, Leaf] = {}
        self.stores: List[Store] = []
        self.parts: Dict[int, Tuple[Any, Any]] = {}
        """Indices and values of sparse tensors, by their ``id``."""
        torch = sys.modules["torch"]
        with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
            self._place(self._strided(tensors))

    @property
    def nbytes(self) -> int:
        return sum(s.nbytes for s in self.stores)

    @property
    def host_bytes(self) -> int:
        """What `copy_into` will ask of an arena."""
        return sum(aligned(s.nbytes) for s in self.stores)

    def devices(self) -> List[Any]:
        """Devices, other than the host, that the tensors are on."""
        return list(
            {str(s.source.device): s.source.device for s in self.stores if s.source.device.type != "cpu"}.values()
        )

    def copy_into(self, arena: Arena) -> None:
        """Copy everything into host memory. From CUDA this only begins: it is done once the current stream has got that far."""
        torch = sys.modules["torch"]
        targets, sources, apart = [], [], []
        for store in self.stores:
            store.copy = arena.take(store.nbytes)
            source = store.source
            if store.numel == 0:
                continue
            if source.device.type == "cpu" and dense(source):
                # Not torch's copy: its threads wait for each other after every tensor, and where workers, other jobs or a small
                # container keep one of them from running, copying takes ten times as long.
                ctypes.memmove(store.copy.data_ptr(), source.data_ptr(), store.nbytes)
                continue
            typed = store.copy.view(source.dtype)
            stride = source.stride() if dense(source) else contiguous_stride(source.shape)
            pair = (typed.as_strided(source.shape, stride), source)
            if source.device.type == "cpu":
                targets.append(pair[0])
                sources.append(source)
            else:
                apart.append(pair)
        with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
            if targets:
                torch._foreach_copy_(targets, sources)
            for target, source in apart:
                target.copy_(source, non_blocking=True)

    def _strided(self, tensors: Iterable[Any]) -> List[Any]:
        """The strided tensors among and inside `tensors`, each once."""
        torch = sys.modules["torch"]
        found: Dict[int, Any] = {}
        for tensor in tensors:
            if tensor.layout is torch.sparse_coo:
                indices, values = tensor._indices(), tensor._values()
                self.parts[id(tensor)] = (tensor, (indices, values))
                found[id(indices)], found[id(values)] = indices, values
            else:
                found[id(tensor)] = tensor
        return list(found.values())

    def _place(self, tensors: List[Any]) -> None:
        runs: Dict[Any, List[Tuple[int, int, Any]]] = {}
        for tensor in tensors:
            local = shard(tensor)
            if local.is_conj() or local.is_neg():
                local = local.resolve_conj().resolve_neg()
            if local.numel() == 0 or not local.data_ptr():
                self._add(Store(local), [(tensor, 0, local.stride())])
            elif reach(local) > WASTE * local.numel():
                self._add(Store(local), [(tensor, 0, contiguous_stride(local.shape))])
            else:
                start = local.data_ptr()
                end = start + reach(local) * local.element_size()
                runs.setdefault((local.device, local.dtype), []).append((start, end, (tensor, local)))
        for run in runs.values():
            run.sort(key=lambda r: r[:2])
            cluster: List[Tuple[int, int, Any]] = []
            end = 0
            for item in run:
                if cluster and item[0] >= end:
                    self._cluster(cluster, end)
                    cluster = []
                cluster.append(item)
                end = max(end, item[1]) if len(cluster) > 1 else item[1]
            self._cluster(cluster, end)

    def _cluster(self, cluster: List[Tuple[int, int, Any]], end: int) -> None:
        """Tensors whose memory overlaps, in the order of their addresses."""
        start, first = cluster[0][0], cluster[0][2][1]
        size = first.element_size()
        same = all(c[:2] == (start, end) and c[2][1].stride() == first.stride() for c in cluster)
        whole = (
            first if same and dense(first) else first.as_strided(((end - start) // size,), (1,), first.storage_offset())
        )
        members = [(tensor, (at - start) // size, local.stride()) for at, _, (tensor, local) in cluster]
        self._add(Store(whole), members)

    def _add(self, store: Store, members: List[Tuple[Any, int, Sequence[int]]]) -> None:
        self.stores.append(store)
        for tensor, offset, stride in members:
            self.leaves[id(tensor)] = Leaf(tensor, store, offset, stride)


def reach(tensor: Any) -> int:
    """Elements from the first to the last one of `tensor` in memory."""
    return 1 + int(sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride())))


def dense(tensor: Any) -> bool:
    """True where the elements of `tensor` fill their memory without gaps or overlaps, in whatever order."""
    if tensor.is_contiguous():  # nearly always, and twenty times as quick to ask
        return True
    expected = 1
    for stride, size in sorted((st, sz) for sz, st in zip(tensor.shape, tensor.stride()) if sz != 1):
        if stride != expected:
            return False
        expected *= size
    return True


def contiguous_stride(shape: Sequence[int]) -> Tuple[int, ...]:
    strides: List[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(1, size)
    return tuple(reversed(strides))


def flat(tensor: Any) -> Any:
    """The elements of a dense tensor in the order of memory, one-dimensional, nothing copied."""
    return tensor.as_strided((tensor.numel(),), (1,), tensor.storage_offset())
