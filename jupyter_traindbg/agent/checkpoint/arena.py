"""Host memory that a snapshot is copied into: asked of the system and touched beforehand, so that copying costs no page faults.

Measured for 1.2 GB: 3.7 s to get new memory page by page, 0.17 s to copy into memory that is there. So the first is done on a client's
thread, without the GIL, and the memory is kept for the next checkpoint where there is plenty.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from typing import Any, List, Optional

from .. import cuda
from ..refused import Refused
from ..saying import said

ALIGN = 64
RESERVE_BYTES = 64 << 20
"""Left to the job whatever happens."""
PLENTY = 2
SLACK_BYTES = 1 << 20
"""For small things that may come between asking for the memory and using it."""
MADV_DONTFORK, MADV_HUGEPAGE = 10, 14


def aligned(nbytes: int) -> int:
    return (nbytes + ALIGN - 1) // ALIGN * ALIGN


class Arena:
    """One block of host memory, handed out piece by piece. Not safe for two users at a time: there is one checkpoint at a time."""

    def __init__(self) -> None:
        self._block: Optional[mmap.mmap] = None
        self._tensor: Any = None
        self._pinned = False
        self._used = 0
        self._more: List[Any] = []

    @property
    def size(self) -> int:
        return 0 if self._block is None else len(self._block)

    def ensure(self, nbytes: int, *, pin: bool) -> None:
        """Have at least `nbytes`, touched, and pinned for CUDA where `pin`. Takes 0.1 to 3 s for each GB that is new, without the GIL.

        Raises `Refused` where the machine, or the container, has not that much to give.
        """
        self.rewind()
        nbytes = aligned(nbytes) + SLACK_BYTES
        if self.size >= nbytes and (self._pinned or not pin):
            return
        self.drop()
        available = available_bytes()
        if available is not None and nbytes + RESERVE_BYTES > available:
            raise Refused(
                said(
                    "a snapshot needs {needed} GB of host memory and {available} GB are available",
                    needed=f"{nbytes / 1e9:.2f}",
                    available=f"{available / 1e9:.2f}",
                ),
                said("free host memory (fewer DataLoader workers, other processes) and try again"),
            )
        self._block = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(self._block, "madvise"):
            for advice in (MADV_HUGEPAGE, MADV_DONTFORK):  # DataLoader workers have no use for a copy
                try:
                    self._block.madvise(advice)
                except OSError:
                    pass  # a kernel without it: slower, and as good
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._block))
        ctypes.memset(address, 0, nbytes)
        self._tensor = sys.modules["torch"].frombuffer(self._block, dtype=sys.modules["torch"].uint8)
        if pin and cuda.in_use():
            self._pinned = int(sys.modules["torch"].cuda.cudart().cudaHostRegister(address, nbytes, 0)) == 0

    def rewind(self) -> None:
        """Everything handed out is free again."""
        self._used = 0
        self._more.clear()

    def take(self, nbytes: int) -> Any:
        """A one-dimensional uint8 tensor of `nbytes`, 64-byte aligned. More than was asked for is found, too, slowly."""
        start = self._used
        if self._tensor is None or start + nbytes > self.size:
            more = sys.modules["torch"].empty(nbytes, dtype=sys.modules["torch"].uint8, device="cpu")
            self._more.append(more)
            return more
        self._used += aligned(nbytes)
        return self._tensor[start : start + nbytes]

    def spare(self) -> None:
        """Called when a checkpoint is done: keep the block only where there is plenty of memory."""
        self.rewind()
        available = available_bytes()
        if available is not None and available < PLENTY * self.size:
            self.drop()

    def drop(self) -> None:
        """Give all of it back to the system at once."""
        self.rewind()
        block, self._block = self._block, None
        if block is None:
            return
        if self._pinned:
            sys.modules["torch"].cuda.cudart().cudaHostUnregister(self._tensor.data_ptr())
        self._pinned, self._tensor = False, None
        try:
            block.close()
        except BufferError:
            pass  # a writer that was told to stop still holds a piece: the memory goes with the last of them


def available_bytes() -> Optional[int]:
    """Host memory that can be had without swapping: the least of the machine's and the container's; None where neither tells."""
    known = [n for n in (_of_machine(), _of_container()) if n is not None]
    return min(known) if known else None


def _of_machine() -> Optional[int]:
    return _field("/proc/meminfo", "MemAvailable:", 1024)


def _of_container() -> Optional[int]:
    """What is left below the limit of our control group; page cache that can be dropped counts as left."""
    for limit, used, stat, cache in (
        ("memory.max", "memory.current", "memory.stat", "inactive_file"),
        (
            "memory/memory.limit_in_bytes",
            "memory/memory.usage_in_bytes",
            "memory/memory.stat",
            "total_inactive_file",
        ),
    ):
        top, now = (_number(os.path.join("/sys/fs/cgroup", name)) for name in (limit, used))
        if top is not None and now is not None:
            return max(0, top - now + (_field(os.path.join("/sys/fs/cgroup", stat), cache, 1) or 0))
    return None


def _number(path: str) -> Optional[int]:
    try:
        with open(path) as f:
            return int(f.read())
    except (OSError, ValueError):  # no such file, or "max"
        return None


def _field(path: str, name: str, unit: int) -> Optional[int]:
    try:
        with open(path) as f:
            return next((int(line.split()[1]) * unit for line in f if line.split()[:1] == [name]), None)
    except (OSError, ValueError):
        return None
