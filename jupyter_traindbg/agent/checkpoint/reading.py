"""The bytes of a store, piece by piece: out of a snapshot, or, in a job that hangs, straight out of the live tensor's memory."""

from __future__ import annotations

import ctypes
import sys
import time
from typing import Any, Iterator

from .archive import PIECE_BYTES
from .layout import Store, dense, flat

GPU_PATIENCE_S = 30.0


class Changed(Exception):
    """The job went on, or moved its memory, while it was being saved. The text says which."""


def from_snapshot(store: Store) -> Iterator[memoryview]:
    """The copy that was made of `store`."""
    yield from _memory(store.copy)


def from_live(store: Store) -> Iterator[memoryview]:
    """The live tensor's own memory, nothing copied in host memory. Raises `Changed` where it is moved meanwhile.

    From a GPU by a stream of our own, which does not wait for what the job's streams wait for, into pageable memory: pinning some could
    wait for a kernel that never ends. Raises TimeoutError where the GPU does not answer.
    """
    torch = sys.modules["torch"]
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        source = flat(store.source) if dense(store.source) else store.source.contiguous().view(-1)
    if source.device.type == "cpu":
        yield from _memory(source)
        return
    step = max(1, PIECE_BYTES // max(1, source.element_size()))
    for start in range(0, store.numel, step):
        with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
            piece = fetched(source[start : start + step])
        yield from _memory(piece)


def fetched(tensor: Any) -> Any:
    """A copy of `tensor` in host memory, made beside whatever the GPU is busy with."""
    torch = sys.modules["torch"]
    if tensor.device.type != "cuda":
        return tensor.to("cpu")
    host = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
    with torch.cuda.device(tensor.device):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            host.copy_(tensor, non_blocking=True)
            arrived = torch.cuda.Event()
            arrived.record(stream)
        wait_for(arrived)
    return host


def wait_for(event: Any) -> None:
    """Wait, with a deadline, for a CUDA event."""
    ends = time.monotonic() + GPU_PATIENCE_S
    while not event.query():
        if time.monotonic() > ends:
            raise TimeoutError(f"the GPU did not answer within {GPU_PATIENCE_S:.0f} s")
        time.sleep(0.001)


def _memory(tensor: Any) -> Iterator[memoryview]:
    nbytes = int(tensor.numel() * tensor.element_size())
    address = tensor.data_ptr()
    for start in range(0, nbytes, PIECE_BYTES):
        if tensor.data_ptr() != address:
            raise Changed("the job moved the memory of a tensor while it was being saved")
        size = min(PIECE_BYTES, nbytes - start)
        yield memoryview((ctypes.c_char * size).from_address(address + start)).cast("B")


def typed(store: Store) -> Any:
    """The elements of a store's snapshot, as a one-dimensional tensor of its dtype."""
    return store.copy.view(store.dtype)


__all__ = ["Changed", "fetched", "from_live", "from_snapshot", "typed", "wait_for"]
