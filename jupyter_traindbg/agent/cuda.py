"""Figures from a GPU without ever waiting for it: a hung GPU must not hang the agent, and a step must not be synchronised."""

from __future__ import annotations

import sys
import time
from typing import Any, Optional, Tuple, Union

MEMORY_EVERY_S = 0.05
_NOTHING: Tuple[Optional[int], Optional[int], Optional[int]] = (None, None, None)
_last: Tuple[float, Tuple[Optional[int], Optional[int], Optional[int]]] = (0.0, _NOTHING)


def in_use() -> bool:
    """True where this process has a CUDA context already; asking must not create one."""
    torch = sys.modules.get("torch")
    return bool(torch is not None and hasattr(torch, "cuda") and torch.cuda.is_initialized())


def capturing() -> bool:
    """True while work is recorded into a CUDA graph, where anything that we start would become a part of it."""
    return in_use() and bool(sys.modules["torch"].cuda.is_current_stream_capturing())


def memory() -> Tuple[Optional[int], Optional[int], Optional[int]]:
    """Bytes allocated, reserved and at peak by torch's allocator on the current device; cached for `MEMORY_EVERY_S`."""
    global _last
    if not in_use():
        return _NOTHING
    now = time.monotonic()
    if now - _last[0] > MEMORY_EVERY_S:
        stats = sys.modules["torch"].cuda.memory_stats_as_nested_dict()
        allocated, reserved = stats["allocated_bytes"]["all"], stats["reserved_bytes"]["all"]
        _last = (now, (allocated["current"], reserved["current"], allocated["peak"]))
    return _last[1]


class LaterScalar:
    """A scalar on its way from the GPU into pinned memory; `value` is None until it has arrived."""

    def __init__(self, tensor: Any) -> None:
        torch = sys.modules["torch"]
        self._host = torch.empty((), dtype=tensor.dtype, device="cpu", pin_memory=True)
        self._host.copy_(tensor.reshape(()), non_blocking=True)
        self._arrived = torch.cuda.Event()
        # The copy goes by the current stream of the tensor's own device, which need not be the current device.
        self._arrived.record(torch.cuda.current_stream(tensor.device))

    def value(self) -> Optional[float]:
        return float(self._host) if self._arrived.query() else None


Scalar = Union[float, LaterScalar]


def later(tensor: Any) -> Optional[Scalar]:
    """A one-element tensor as a float if it is in host memory, as a `LaterScalar` on CUDA; None elsewhere or in a graph capture."""
    kind = tensor.device.type
    if kind == "cpu":
        return float(tensor)
    return LaterScalar(tensor) if kind == "cuda" and not capturing() else None


def soon(tensor: Any, wait_s: float) -> Optional[float]:
    """Like `later`, waiting at most `wait_s` for a GPU. For a client's thread, never for the training thread."""
    scalar = later(tensor)
    ends = time.monotonic() + wait_s
    while isinstance(scalar, LaterScalar):
        value = scalar.value()
        if value is not None or time.monotonic() > ends:
            return value
        time.sleep(0.001)
    return scalar
