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
        self._arrived.record()

    def value(self) -> Optional[float]:
        return float(self._host) if self._arrived.query() else None


def later(tensor: Any) -> Union[float, LaterScalar, None]:
    """A one-element tensor as a float if it is in host memory, as a `LaterScalar` on CUDA, None elsewhere or in a graph capture."""
    kind = tensor.device.type
    if kind == "cpu":
        return float(tensor)
    if kind != "cuda" or sys.modules["torch"].cuda.is_current_stream_capturing():
        return None
    return LaterScalar(tensor)
