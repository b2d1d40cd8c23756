"""How many bytes the process has in use after each step, by the allocators' own books: what leaks shows there within a few steps."""

from __future__ import annotations

import collections
import ctypes
import sys
import time
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, List, Optional, Tuple

from .. import cuda
from ..resident import status_bytes

if TYPE_CHECKING:
    from ..safepoint import SafePoints

LEAST_STEPS = 6
"""Of fewer steps nothing is said."""
KEPT, KNOWN_STEPS = 40, 24
"""So many rows are kept; and from so many on all of them tell: of fewer, the first ones tell what our own arrival took."""
LOOK_S = 0.01
WORTH_S, MOST_SKIPPED = 10e-6, 50
"""What a count costs a step, while nobody waits for it: one that takes longer is taken less often."""
LEAST_BYTES = 1000
"""What a step leaves behind that is worth a second look. Sound trainings leave up to 200, for where blocks lie changes their headers, and
up to 600 where they keep some numbers of each step.
"""
FLAT_STEPS = 4
"""So many, in which the books do not differ by that much in all, tell already that nothing grows at each step, nor at every third."""
RISING, RISING_OF_FEW, FEW_STEPS, OPEN = 0.55, 0.8, 10, 0.2
"""Kendall's tau, from which on it grows, of so many steps or of fewer: of values that do not, less than one time in a hundred. And
from which on more steps may tell.
"""
EVEN = 0.4
"""Each quarter of a growth without end has that share of the mean rise of all, at least."""
FOREIGN = ("mallctl", "tc_malloc", "mi_malloc")
"""Functions of allocators that take malloc's place, and keep other books."""


class Ledger:
    """A row ``(host bytes, CUDA bytes)`` of each of the last `KEPT` steps, from when it is opened to when the safe points are closed. 10
    us a step: malloc's own count goes through all free blocks, so that it is taken less often where there are many. It takes 10 to 100
    us.

    ``books``: whether the host's bytes are malloc's own count; else they are resident pages, which tell less and later.
    """

    def __init__(self, safepoints: SafePoints) -> None:
        self._safepoints = safepoints
        self._malloc = malloc_count()
        self._skip = 0
        self._eager_until = 0
        self.books = self._malloc is not None
        self.rows: Deque[Tuple[int, int, int]] = collections.deque(maxlen=KEPT)
        """The number of the step, and its bytes."""
        safepoints.after.append(self._note)

    def hurry(self, steps: int) -> None:
        """Somebody waits for it: a row is noted after each of the next steps."""
        self._eager_until = max(self._eager_until, self._safepoints.steps + steps)

    def _note(self, _: Any) -> None:
        """On the training thread."""
        if self._skip and self._safepoints.steps > self._eager_until:
            self._skip -= 1
            return
        began = time.perf_counter()
        host = self._malloc() if self._malloc is not None else status_bytes("VmRSS")
        self._skip = min(MOST_SKIPPED, int((time.perf_counter() - began) / WORTH_S))
        on_gpu = cuda.memory()[0] if self._safepoints.on_cuda else None
        self.rows.append((self._safepoints.steps, host, on_gpu or 0))

    def wait(self, steps: int, ends_s: float, after: int, over: Callable[[], bool]) -> None:
        """On a client's thread: until there are rows of so many steps after that one, or it is `over`, or `ends_s` has come."""
        self.hurry(steps)
        while time.monotonic() < ends_s and len(self.since(after)) < steps and not over():
            time.sleep(LOOK_S)

    def settled(self) -> int:
        """The step after which rows tell of the program alone: the present one, where there are few yet."""
        return 0 if len(self.rows) >= KNOWN_STEPS else self._safepoints.steps

    def since(self, step: int) -> List[Tuple[int, int, int]]:
        """The rows of the steps after that one."""
        return [row for row in list(self.rows) if row[0] > step]

    def flat_after(self) -> Optional[int]:
        """The step since when nothing has grown, where the last ones tell that; see `is_flat`. Resident pages do not tell it so soon."""
        rows = list(self.rows)[-FLAT_STEPS:]
        flat = self.books and all(is_flat([row[n] for row in rows]) for n in (1, 2))
        return rows[0][0] - 1 if flat else None

    def report(self, after: int = 0) -> Dict[str, Any]:
        """Of the steps after that one: ``steps`` that were watched; what one leaves behind: bytes of ``host`` and ``cuda`` (0 where it does
        not grow).
        """
        rows = self.since(after)
        numbers, host, on_gpu = ([row[n] for row in rows] for n in range(3))
        return {
            "steps": len(rows),
            "books": self.books,
            "host": rise(host, numbers),
            "cuda": rise(on_gpu, numbers),
            "open": is_open(host) or is_open(on_gpu),
            "even": {"host": is_even(host), "cuda": is_even(on_gpu)},
        }


def rise(values: List[int], numbers: Optional[List[int]] = None) -> float:
    """By how much these grow from one step to the next, where of all pairs far more rise than fall; else 0. Single values that stand out,
    as where somebody else was asking, matter little. `numbers`: of their steps.
    """
    rising, a_step = _trend(values, numbers or list(range(len(values))))
    wanted = RISING if len(values) >= FEW_STEPS else RISING_OF_FEW
    return a_step if rising >= wanted and a_step >= LEAST_BYTES else 0.0


def is_flat(values: List[int]) -> bool:
    """Whether so few tell that nothing grows; see `FLAT_STEPS`."""
    return len(values) >= FLAT_STEPS and max(values) - min(values) < LEAST_BYTES


def is_open(values: List[int]) -> bool:
    """Whether more steps may tell that these grow, where so few do not."""
    rising, a_step = _trend(values, list(range(len(values))))
    return rising >= OPEN and a_step >= LEAST_BYTES and not rise(values)


def _trend(values: List[int], at: List[int]) -> Tuple[float, float]:
    """Kendall's tau and Theil-Sen's slope; zeros of too few."""
    if len(values) < LEAST_STEPS:
        return 0.0, 0.0
    pairs = [(values[j] - values[i], at[j] - at[i]) for j in range(len(values)) for i in range(j)]
    slopes = sorted(up / steps for up, steps in pairs)
    return sum((up > 0) - (up < 0) for up, _ in pairs) / len(pairs), slopes[len(slopes) // 2]


def is_even(values: List[int]) -> bool:
    """Whether it grows at the same pace from beginning to end; what fills up or warms up slows down."""
    if len(values) < 2 * LEAST_STEPS:
        return False
    ends = [(len(values) - 1) * n // 4 for n in range(5)]
    rises = [values[b] - values[a] for a, b in zip(ends, ends[1:])]
    return min(rises) > EVEN * sum(rises) / 4 > 0


class _MallInfo2(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    ]  # fmt: skip


def malloc_count() -> Optional[Callable[[], int]]:
    """A function that says how many bytes are allocated by malloc, in a microsecond; None where the C library keeps no such count.

    It is glibc's (2.33 and later), of all arenas.
    """
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.PyDLL(None)
    if any(hasattr(library, name) for name in FOREIGN) or not hasattr(library, "mallinfo2"):
        return None
    told = library.mallinfo2
    told.restype = _MallInfo2

    def count() -> int:
        info = told()
        return int(info.uordblks + info.hblkhd)

    return count
