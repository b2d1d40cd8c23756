"""One rank's trace as torch's profiler writes it (Kineto's Chrome trace): its slices, nested, on the clock of its host."""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..model import OperatorKind

__all__ = ["Slice", "Thread", "Trace", "busy_s", "parsed", "read"]

_KINDS: Mapping[str, OperatorKind] = {
    "cpu_op": "operator",
    "user_annotation": "range",
    "cuda_runtime": "runtime",
    "cuda_driver": "runtime",
    "kernel": "kernel",
    "gpu_memcpy": "kernel",
    "gpu_memset": "kernel",
}
"""By Kineto's category. What is in no other (its own marks, flows, the same ranges again as a GPU saw them) is no slice here."""


@dataclass
class Slice:
    """Times are seconds since `Trace.base_s`. ``below_s``: how much of it is that of slices that it called itself; ``above``: the number of
    the slice that called it, -1 for none.
    """

    name: str
    kind: OperatorKind
    began_s: float
    ended_s: float
    made_by: Any = None
    """Kineto's number of an operator (``External id``): kernels have that of the one that has launched them."""
    above: int = -1
    below_s: float = 0.0

    @property
    def total_s(self) -> float:
        return self.ended_s - self.began_s

    @property
    def self_s(self) -> float:
        return max(0.0, self.total_s - self.below_s)


@dataclass
class Thread:
    """The slices of a thread, or of a stream of a GPU, in the order of their beginnings; a caller before what it called."""

    slices: list[Slice] = field(default_factory=list)
    _begins: list[float] = field(default_factory=list)

    def nest(self, ended_s: float) -> None:
        """Put them in order, and find who called whom. What was not over at `ended_s`, or overlaps its caller's end, ends there."""
        self.slices.sort(key=lambda one: (one.began_s, -one.ended_s))
        above: list[int] = []
        for number, one in enumerate(self.slices):
            one.ended_s = max(one.began_s, min(one.ended_s, ended_s))
            while above and self.slices[above[-1]].ended_s <= one.began_s:
                above.pop()
            if above:
                caller = self.slices[above[-1]]
                one.above, one.ended_s = above[-1], min(one.ended_s, caller.ended_s)
                caller.below_s += one.total_s
            above.append(number)
        self._begins = [one.began_s for one in self.slices]

    def at(self, moment_s: float) -> Slice | None:
        """The innermost operator that ran then, on the clock of its slices; None where none did."""
        number = bisect_right(self._begins, moment_s) - 1
        while number >= 0:
            one = self.slices[number]
            if one.ended_s >= moment_s and one.kind == "operator":
                return one
            number = one.above
        return None


@dataclass(frozen=True)
class Trace:
    """``base_s`` is a moment in Unix time: since that, a float can tell nanoseconds. ``threads``: by the kernel's number; ``streams``: by
    device and stream. ``events``: how many it has of all kinds.
    """

    base_s: float
    threads: Mapping[int, Thread]
    streams: Mapping[tuple[Any, Any], Thread]
    events: int


def read(written: bytes, ended_s: float = math.inf) -> Trace:
    """A trace as Kineto wrote it, up to `ended_s` (Unix time): what is still open there ends there. 25 ms a MB.

    Raises ValueError for what is no such trace.
    """
    told = parsed(written)
    events = told["traceEvents"]
    base_s = told.get("baseTimeNanoseconds", 0) / 1e9
    threads: dict[int, Thread] = defaultdict(Thread)
    streams: dict[tuple[Any, Any], Thread] = defaultdict(Thread)
    for event in events:
        kind = _KINDS.get(event.get("cat", "")) if event.get("ph") == "X" else None
        if kind is None:
            continue
        began_s = event["ts"] / 1e6
        made_by = event.get("args", _NOTHING).get("External id")
        one = Slice(event["name"], kind, began_s, began_s + event["dur"] / 1e6, made_by)
        (streams[event["pid"], event["tid"]] if kind == "kernel" else threads[event["tid"]]).slices.append(one)
    for thread in (*threads.values(), *streams.values()):
        thread.nest(ended_s - base_s)
    return Trace(base_s, dict(threads), dict(streams), len(events))


def parsed(written: bytes) -> dict[str, Any]:
    """The JSON of it, also where names of the program's have characters in them that JSON has not. Raises ValueError."""
    told = json.loads(written.decode(errors="replace"), strict=False)
    if not isinstance(told, dict) or not isinstance(told.get("traceEvents"), list):
        raise ValueError("there are no events in it")
    return told


_NOTHING: Mapping[str, Any] = {}


def busy_s(slices: Sequence[tuple[float, float]]) -> float:
    """Seconds that at least one of these, each from and to, covers."""
    covered, until = 0.0, -math.inf
    for began_s, ended_s in sorted(slices):
        covered += max(0.0, ended_s - max(began_s, until))
        until = max(until, ended_s)
    return covered
