"""The bytes of a store, piece by piece: out of a snapshot, or, in a job that hangs, straight out of the live tensor's memory."""

from __future__ import annotations

import ctypes
import sys
import time
from typing import Any, Iterator, List, Sequence

from .. import cuda
from ..objects import named_parameters
from ..refused import Refused
from ..saying import said
from ..tensors import shard
from .archive import PIECE_BYTES
from .layout import Store, dense, flat, reach

GPU_PATIENCE_S = 30.0
SAMPLE = 1024


class Changed(Refused):
    """The job went on, or moved its memory, while it was being saved. The text says which."""


def from_snapshot(store: Store) -> Iterator[memoryview]:
    """The copy that was made of `store`."""
    yield from _memory(store.copy)


def from_live(store: Store) -> Iterator[memoryview]:
    """The live tensor's own memory, nothing copied in host memory. Raises `Changed` where it is moved meanwhile.

    From a GPU by a stream of our own, which does not wait for what the job's streams wait for, into pageable memory: pinning some could
    wait for a kernel that never ends. Raises `Refused` where the GPU does not answer.
    """
    torch = sys.modules["torch"]
    source = store.source
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        if not dense(source):
            source = _without_gaps(source)
        source = flat(source)
    if source.device.type == "cpu":
        yield from _memory(source)
        return
    step = max(1, PIECE_BYTES // max(1, source.element_size()))
    for start in range(0, store.numel, step):
        with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
            piece = fetched(source[start : start + step])
        yield from _memory(piece)


def _without_gaps(view: Any) -> Any:
    """The elements of `view` one after the other, in host memory: its gaps are fetched, too, as a GPU that hangs runs no kernel for us."""
    if view.device.type == "cuda":
        span = fetched(view.as_strided((reach(view),), (1,), view.storage_offset()))
        view = span.as_strided(view.shape, view.stride())
    return view.contiguous()


def fetched(tensor: Any) -> Any:
    """A copy of `tensor` in host memory, made beside whatever the GPU is busy with."""
    torch = sys.modules["torch"]
    if tensor.device.type != "cuda":
        return tensor.to("cpu")
    host = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
    with cuda.stream_of_ours(tensor.device):
        host.copy_(tensor, non_blocking=True)
        wait_for(cuda.event(tensor.device))
    return host


def samples(optimizers: Sequence[Any], models: Sequence[Any]) -> List[bytes]:
    """A little of each optimizer's parameters on a GPU: steps that a CUDA graph replays are seen by nothing else. Without an optimizer, of
    the models': the program changes them itself."""
    of_models = [] if optimizers else [_trained(model) for model in models]
    sampled = [*(_on_gpu(optimizer) for optimizer in optimizers), *of_models]
    return [_sample(parameter) for parameter in sampled if parameter is not None]


def _on_gpu(optimizer: Any) -> Any:
    """A parameter that this optimizer changes on a GPU; None where it has none there."""
    parameters = (p for group in list(optimizer.param_groups) for p in list(group["params"]))
    return next((p for p in parameters if p.device.type == "cuda" and p.requires_grad and p.numel()), None)


def _trained(model: Any) -> Any:
    """A parameter of `model` that is trained; None where it has none."""
    return next((p for _, p in named_parameters(model) if p.requires_grad and p.numel()), None)


def _sample(tensor: Any) -> bytes:
    """The first values of `tensor`, to see whether they change."""
    torch = sys.modules["torch"]
    local = shard(tensor)
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        first = local.as_strided((min(SAMPLE, reach(local)),), (1,), local.storage_offset())
        return b"".join(bytes(piece) for piece in _memory(fetched(first)))


def wait_for(event: Any) -> None:
    """Wait, with a deadline, for a CUDA event."""
    ends = time.monotonic() + GPU_PATIENCE_S
    while not event.query():
        if time.monotonic() > ends:
            raise Refused(said("the GPU did not answer within {patience} s", patience=f"{GPU_PATIENCE_S:.0f}"))
        time.sleep(0.001)


def _memory(tensor: Any) -> Iterator[memoryview]:
    nbytes = int(tensor.numel() * tensor.element_size())
    address = tensor.data_ptr()
    for start in range(0, nbytes, PIECE_BYTES):
        if tensor.data_ptr() != address:
            raise Changed(said("the job moved the memory of a tensor while it was being saved"))
        size = min(PIECE_BYTES, nbytes - start)
        yield memoryview((ctypes.c_char * size).from_address(address + start)).cast("B")


def typed(store: Store) -> Any:
    """The elements of a store's snapshot, as a one-dimensional tensor of its dtype."""
    return store.copy.view(store.dtype)


__all__ = ["Changed", "fetched", "from_live", "from_snapshot", "samples", "typed", "wait_for"]
