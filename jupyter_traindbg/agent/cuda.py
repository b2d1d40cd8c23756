"""Figures from a GPU without ever waiting for it: a hung GPU must not hang the agent, and a step must not be synchronised."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import Any, Iterator, Optional, Tuple, Union

MEMORY_EVERY_S = 0.05
RELAXED, NON_BLOCKING = 2, 1
"""CU_STREAM_CAPTURE_MODE_RELAXED and CU_STREAM_NON_BLOCKING, of cuda.h."""
NO_MEMORY: Tuple[Optional[int], Optional[int], Optional[int]] = (None, None, None)
_mine = threading.local()
_last: Tuple[float, Tuple[Optional[int], Optional[int], Optional[int]]] = (0.0, NO_MEMORY)


def in_use() -> bool:
    """True where this process has a CUDA context already; asking must not create one."""
    module = sys.modules.get("torch.cuda")
    return bool(getattr(module, "_initialized", False) and module.is_initialized())  # type: ignore[union-attr]


def capturing() -> bool:
    """True while work is recorded into a CUDA graph, where anything that we start would become a part of it."""
    return in_use() and bool(sys.modules["torch"].cuda.is_current_stream_capturing())


def stand_aside() -> None:
    """Let this thread, one of ours, call CUDA while another one captures a graph. Not for the training thread. 1 us.

    By default nearly any CUDA call of any thread, be it a question about an event, fails during a capture and takes the capture along:
    the training would end with "operation failed due to a previous error during capture".
    """
    if getattr(_mine, "stands_aside", False) or not in_use():
        return
    _mine.stands_aside = True
    try:
        import ctypes  # a Python without it is rare, but it must not keep the agent from loading

        ctypes.CDLL("libcuda.so.1").cuThreadExchangeStreamCaptureMode(ctypes.byref(ctypes.c_int(RELAXED)))
    except (ImportError, OSError, AttributeError):
        pass  # not NVIDIA's driver


def memory() -> Tuple[Optional[int], Optional[int], Optional[int]]:
    """Bytes allocated, reserved and at peak by torch's allocator on the current device, which is `in_use`; kept for `MEMORY_EVERY_S`."""
    global _last
    now = time.monotonic()
    if now - _last[0] > MEMORY_EVERY_S:
        stats = sys.modules["torch"].cuda.memory_stats_as_nested_dict()
        allocated, reserved = stats["allocated_bytes"]["all"], stats["reserved_bytes"]["all"]
        _last = (now, (allocated["current"], reserved["current"], allocated["peak"]))
    return _last[1]


def busy() -> bool:
    """True while a GPU has not done all that this process gave it, as far as torch's default streams tell. 10 us, and no waiting."""
    if not in_use():
        return False
    torch = sys.modules["torch"]
    devices = [d for d in range(torch.cuda.device_count()) if torch._C._cuda_hasPrimaryContext(d)]  # else it is made
    return not all(torch.cuda.default_stream(d).query() for d in devices)


def event(device: Any, again: Any = None) -> Any:
    """An event behind all that has been given to `device` on its current stream; `again` is one of that device to be used for it."""
    torch = sys.modules["torch"]
    recorded = torch.cuda.Event() if again is None else again
    recorded.record(torch.cuda.current_stream(device))
    return recorded


@contextlib.contextmanager
def stream_of_ours(device: Any) -> Iterator[None]:
    """A stream on `device` that waits for no other, current in here. Raises OSError where the driver makes none.

    By the driver, as torch would make all of its pool at once: where a kernel hangs, that waits for it, for ever, and keeps the GIL
    meanwhile (seen with driver 580 and torch 2.11). One stream is had at once.
    """
    import ctypes

    torch = sys.modules["torch"]
    if torch.version.hip:  # AMD's driver, of which we know nothing
        with torch.cuda.device(device), torch.cuda.stream(torch.cuda.Stream(device)):
            yield
        return
    driver = ctypes.CDLL("libcuda.so.1")
    ordinal, context, handle = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    _checked(driver.cuDeviceGet(ctypes.byref(ordinal), device.index))
    with contextlib.ExitStack() as undo:
        _checked(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), ordinal))
        undo.callback(driver.cuDevicePrimaryCtxRelease_v2, ordinal)
        _checked(driver.cuCtxPushCurrent_v2(context))
        undo.callback(driver.cuCtxPopCurrent_v2, ctypes.byref(context))
        _checked(driver.cuStreamCreate(ctypes.byref(handle), NON_BLOCKING))
        undo.callback(driver.cuStreamDestroy_v2, handle)
        undo.enter_context(torch.cuda.device(device))
        undo.enter_context(torch.cuda.stream(torch.cuda.ExternalStream(handle.value, device)))
        yield


def _checked(code: int) -> None:
    if code:
        raise OSError(f"the CUDA driver says error {code}")


class LaterScalar:
    """A scalar on its way from the GPU into pinned memory; `value` is None until it has arrived."""

    def __init__(self, tensor: Any) -> None:
        torch = sys.modules["torch"]
        self._host = torch.empty((), dtype=tensor.dtype, device="cpu", pin_memory=True)
        self._host.copy_(tensor.reshape(()), non_blocking=True)
        # The copy goes by the current stream of the tensor's own device, which need not be the current device.
        self._arrived = event(tensor.device)

    def value(self) -> Optional[float]:
        if capturing():  # where asking an event is an error, which takes the capture along
            return None
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
